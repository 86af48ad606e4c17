/** Saves data as a file of the reader's computer; nothing leaves the page. */

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function saveJson(name, value) {
  save(`${name}.json`, "application/json", `${JSON.stringify(value, null, 2)}\n`);
}

export function saveLines(name, values) {
  save(`${name}.ndjson`, "application/x-ndjson", values.map((value) => `${JSON.stringify(value)}\n`).join(""));
}

/** Saves rows as CSV. A text that a spreadsheet would run as a formula gets an apostrophe. */
export function saveTable(name, columns, rows) {
  const lines = [columns, ...rows.map((row) => columns.map((column) => row[column]))];
  save(`${name}.csv`, "text/csv", lines.map((cells) => `${cells.map(cell).join(",")}\r\n`).join(""));
}

function cell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/u.test(text)) text = `'${text}`;
  return /[",\r\n]/u.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
