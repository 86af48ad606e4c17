/** A form for the result of a tool that the client runs: from the schema of the result, or as JSON. */
import { build, button, make } from "./dom.js";

const LONG = 120;

/** Returns a form; `send(outcome)` gets `{result}` or `{error}` and throws if it is not accepted. */
export function toolForm(name, schema, send) {
  const problem = build("p", { class: "problem", role: "alert" });
  const fields = new ResultFields(schema);
  const submit = build("button", { class: "primary" }, "Answer");
  const fail = button("Report a failure", () => attempt(() => ({ error: fields.text() || `${name} failed` })));
  const form = build("form", { class: "answer", "aria-label": `Result of ${name}` }, fields.element, build("div", { class: "buttons" }, submit, fail), problem);
  async function attempt(read) {
    problem.textContent = "";
    try {
      await send(read());
      form.remove();
    } catch (error) {
      problem.textContent = error.message;
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => ({ result: fields.value() }));
  });
  return form;
}

/** The fields of a schema; an object has one for each of its properties. */
class ResultFields {
  element = make("div", "answer-fields");
  #read;
  #all = [];

  constructor(schema) {
    const properties = schema?.properties;
    if (schema?.type === "object" && properties && Object.keys(properties).length > 0) this.#object(properties, schema.required ?? []);
    else this.#single(schema);
  }

  value() {
    return this.#read();
  }

  /** Returns what was typed, for the text of a failure. */
  text() {
    const typed = this.#all.filter((field) => field.matches("textarea, input[type=text]"));
    return typed.map((field) => field.value.trim()).filter(Boolean).join(" ");
  }

  #object(properties, required) {
    const members = Object.entries(properties).map(([name, schema]) => {
      const needed = required.includes(name);
      return [name, needed, this.#field(needed ? `${name} *` : name, schema, needed)];
    });
    this.#read = () => {
      const found = {};
      for (const [name, needed, read] of members) {
        const value = read();
        if (value !== undefined) found[name] = value;
        else if (needed) throw new Error(`${name} is required`);
      }
      return found;
    };
  }

  #single(schema) {
    const typed = schema !== undefined && schema !== null && ["string", "number", "integer", "boolean"].includes(schema.type);
    const read = this.#field(typed ? "Your result" : "Your result, as JSON", typed ? schema : {}, true);
    this.#read = () => {
      const value = read();
      if (value === undefined) throw new Error("the result is empty; enter null for none");
      return value;
    };
  }

  /** Adds a field with its label; returns the function that reads it, undefined for an empty one. */
  #field(label, schema, needed) {
    const [control, read] = controlOf(schema);
    this.#all.push(control);
    const shown = build("label", { class: control.type === "checkbox" ? "check" : "wide" }, label, control);
    if (control.type === "checkbox") shown.replaceChildren(control, label);
    if (needed && control.type !== "checkbox") control.setAttribute("aria-required", "true");
    this.element.append(shown);
    if (schema.description) this.element.append(make("p", "hint", schema.description));
    return read;
  }
}

function controlOf(schema) {
  if (Array.isArray(schema.enum)) return choice(schema.enum);
  if (schema.type === "boolean") {
    const box = build("input", { type: "checkbox" });
    return [box, () => box.checked];
  }
  if (schema.type === "number" || schema.type === "integer") {
    const field = build("input", { type: "number", step: schema.type === "integer" ? 1 : "any", min: schema.minimum, max: schema.maximum });
    return [field, () => (field.value === "" ? undefined : Number(field.value))];
  }
  if (schema.type === "string") {
    const long = (schema.maxLength ?? 0) > LONG;
    const field = long ? build("textarea", { rows: 3 }) : build("input", { type: "text", maxlength: schema.maxLength });
    return [field, () => (field.value === "" ? undefined : field.value)];
  }
  const field = build("textarea", { rows: 3, class: "code", spellcheck: "false" });
  return [field, () => (field.value.trim() === "" ? undefined : JSON.parse(field.value))];
}

function choice(values) {
  const select = build("select", {}, ...values.map((value, at) => build("option", { value: at }, String(value))));
  return [select, () => values[Number(select.value)]];
}
