"use strict";
// Columns as the page's data tell them: see columns.py for the form.
const data = JSON.parse(document.getElementById("data").textContent);
const decoded = new Map();

function column(number) {
  if (decoded.has(number)) return decoded.get(number);
  const [unit, steps] = data.columns[number];
  const values = [];
  let at = 0;
  if (steps !== "") for (const part of steps.split(",")) {
    const [step, often] = part.split("*");
    for (let left = Number(often || 1); left > 0; left--) {
      if (step === "n") { values.push(NaN); continue; }
      at += Number(step);
      values.push(at * unit);
    }
  }
  decoded.set(number, values);
  return values;
}
