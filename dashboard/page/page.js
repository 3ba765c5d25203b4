// Where the page begins: a report holds what it shows, a live page asks the server that it came from.

import { showLive } from "/live.js";
import { showReport } from "/report.js";
import { showRuns } from "/runs.js";
import { showSheet } from "/sheet.js";

const inlined = document.getElementById("inlined");
const told = inlined ? JSON.parse(inlined.textContent) : null;
if (document.getElementById("runs")) showRuns();
else if (!told) showLive();
else if (told.sections) showSheet(told);
else showReport(told);
