// The server sends a browser that showed a wrong token back with "?wrong".
document.getElementById("wrong").hidden = location.search !== "?wrong";
