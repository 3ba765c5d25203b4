// Before the first paint: the reader's choice, else the system's.
try {
  const chosen = localStorage.getItem("dynamix-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { // a page without an origin keeps nothing
}
