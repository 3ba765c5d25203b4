// Before the first paint: the reader's choice, else the system's.
const chosen = localStorage.getItem("dynamix-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
