// What `dynamix-node explain` says of the window at a point of the batch chart, in a dialog. A report, which has no
// server, shows the command that says it.

import { clock, element, setText } from "/text.js";

const askInterval = 300;
const attempts = 100;
let dialog = null;
let asked = 0;

function open() {
  if (!dialog) {
    const close = element("button", "", "Close");
    close.type = "button";
    close.addEventListener("click", () => dialog.close());
    const text = Object.assign(element("div", "told"), { tabIndex: 0 });
    dialog = element("dialog", "panel", element("div", "head", element("h2"), close), text);
    dialog.setAttribute("aria-labelledby", "explained");
    dialog.querySelector("h2").id = "explained";
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside it
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

/** Sentences are broken where the dialog ends, and a table's lines, which begin with spaces, are not. */
function show(title, text) {
  setText(dialog.querySelector("h2"), title);
  const blocks = text.match(/(?:^ .*\n?)+|^[^ \n].*$/gm) ?? [];
  dialog.querySelector(".told").replaceChildren(...blocks.map((block) => element(block.startsWith(" ") ? "pre" : "p", "", block)));
}

/** `seconds`: of training, at the chart's point; `worker`: empty for all. `run`: of a list, else null. */
export function explainAt(seconds, worker, run) {
  open();
  show(`Batch sizes at ${clock(seconds)}`, "reading the ledger");
  ask(++asked, seconds, worker, run);
}

async function ask(mine, seconds, worker, run) {
  const query = new URLSearchParams({ at: seconds, ...(worker ? { worker } : {}), ...(run === null ? {} : { run }) });
  for (let i = 0; i < attempts && mine === asked && dialog.open; ++i) {
    const answer = await fetch(`/api/explain?${query}`, { cache: "no-store" }).catch(() => null);
    if (mine !== asked) return;
    if (answer?.status === 200) {
      const { window, text, problem } = await answer.json();
      return show(problem ? `Batch sizes at ${clock(seconds)}` : `Window ${window}, which ended at ${clock(seconds)}`, problem ?? text);
    }
    if (answer && answer.status !== 202 && answer.status !== 429) return show(`Batch sizes at ${clock(seconds)}`, `the server says ${answer.status}`);
    await new Promise((done) => setTimeout(done, askInterval));
  }
  show(`Batch sizes at ${clock(seconds)}`, "no answer; click again");
}

/** Of a report, which was made from the run in some directory. */
export function showCommand(window, worker) {
  open();
  show(`Window ${window}`, `This command says why, with the run's directory in place of RUN:\n`
    + `  dynamix-node explain --run RUN --window ${window}${worker ? ` --worker ${worker}` : ""}`);
}
