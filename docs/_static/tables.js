// On a phone, tables of words have their cells below one another, each with its header; tables of numbers scroll.
const LONG = 45;

for (const table of document.querySelectorAll("table.docutils")) {
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.replace(/\\[()]/g, "").trim());
  const cells = [...table.querySelectorAll("tbody td")];
  if (names.length < 3 || Math.max(...cells.map((cell) => cell.textContent.length)) < LONG) continue;
  table.classList.add("words");
  for (const cell of cells.filter((one) => one.cellIndex && one.textContent.trim())) {
    cell.dataset.label = names[cell.cellIndex];
  }
}
