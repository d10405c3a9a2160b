"use strict";
// Tables that are sorted by a column, and narrowed by what is typed.
const ROWS_AT_FIRST = 100;

function sortable(table) {
  const heads = [...table.querySelectorAll("thead th[data-sort]")];
  heads.forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.dataset.sort === "text" ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      for (const body of table.tBodies) sortRows(body, Number(head.dataset.column), head.dataset.sort, order);
      table.dispatchEvent(new Event("sorted"));
    });
  });
}

function sortRows(body, column, kind, order) {
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].filter((row) => !row.classList.contains("heading"));
  const keys = new Map(rows.map((row) => {
    const cell = row.cells[column];
    return [row, kind === "text" ? cell.textContent : cell.dataset.v === "" ? NaN : Number(cell.dataset.v)];
  }));
  rows.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (kind === "text") return sign * a.localeCompare(b, "en", { numeric: true });
    // What is unknown comes last, whichever way.
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  });
  body.append(...rows);
}

// The first rows that match; a button below the table shows the others, and paper has them all.
function filterable(table, input, note) {
  let most = ROWS_AT_FIRST;
  const more = made("button", "quiet rest");
  more.type = "button";
  table.closest(".scroll").after(more);
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let [shown, matching, all] = [0, 0, 0];
    for (const body of table.tBodies) {
      let count = 0;
      for (const row of body.rows) {
        if (row.classList.contains("heading")) continue;
        const text = row.cells[0].textContent.toLowerCase() + " " + (row.dataset.words || "");
        const isMatching = words.every((word) => text.includes(word));
        count += isMatching ? 1 : 0;
        row.hidden = !isMatching || count > most;
        if (body.hidden) continue;
        all += 1;
        matching += isMatching ? 1 : 0;
        shown += row.hidden ? 0 : 1;
      }
    }
    note.textContent = shown < all ? `${shown} of ${all} shown` : `${all} in total`;
    more.hidden = shown === matching;
    more.textContent = `Show ${matching - shown} more`;
  };
  const showAll = () => { most = Infinity; narrow(); };
  more.addEventListener("click", showAll);
  window.addEventListener("beforeprint", showAll);
  input.addEventListener("input", narrow);
  table.addEventListener("sorted", narrow);
  narrow();
  return narrow;
}

// Buttons that copy a text; a page that is no secure context has only the older way.
function copyable(note) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    const name = button.textContent;
    button.addEventListener("click", async () => {
      const copied = await copyText(button.dataset.copy || button.closest("details").querySelector("pre").textContent);
      button.textContent = copied ? "Copied" : "Failed";
      note.textContent = copied ? "Copied to the clipboard" : "The browser does not allow copying";
      setTimeout(() => { button.textContent = name; }, 1600);
    });
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
