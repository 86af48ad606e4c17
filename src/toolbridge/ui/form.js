/** The form of a new run: reads it as a request of `/v1/stream`. */
import { Refused, getJson } from "./client.js";

export class OrderForm {
  #form;
  #problem;

  constructor(form, onstart) {
    this.#form = form;
    this.#problem = form.querySelector(".problem");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const body = this.#read();
      if (body !== null) onstart(body, Number(form.elements.namedItem("pace").value));
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
  }

  async offerModels() {
    const [{ data }, { model }] = await Promise.all([getJson("/v1/models"), getJson("/health")]);
    // The built-in model writes everything at once, which is too fast to follow.
    if (model?.startsWith("demo/")) this.#form.elements.namedItem("pace").value = "30";
    const options = data.map(({ id }) => {
      const option = document.createElement("option");
      option.value = id;
      return option;
    });
    this.#form.querySelector("datalist#models").replaceChildren(...options);
  }

  /** Shows an error, at its field if that is known. */
  complain(error) {
    this.#problem.textContent = error.message;
    this.#problem.hidden = false;
    const name = error instanceof Refused ? error.where?.split(".")[0] : error.where;
    const field = name ? this.#form.elements.namedItem(name) : null;
    if (!(field instanceof HTMLElement)) return;
    field.setAttribute("aria-invalid", "true");
    field.closest("details")?.setAttribute("open", "");
    field.focus();
  }

  calm() {
    this.#problem.hidden = true;
    for (const field of this.#form.elements) field.removeAttribute("aria-invalid");
  }

  disable(yes) {
    for (const fieldset of this.#form.querySelectorAll("fieldset")) fieldset.disabled = yes;
  }

  #read() {
    this.calm();
    const value = (name) => this.#form.elements.namedItem(name).value.trim();
    const body = { prompt: value("prompt") };
    for (const name of ["model", "profile"]) if (value(name)) body[name] = value(name);
    if (value("mode") !== "auto") body.mode = value("mode");
    if (this.#form.elements.namedItem("hold_results").checked) body.hold_results = true;
    try {
      if (value("tools")) body.tools = tools(value("tools"));
      if (value("schemas")) body.schemas = object(value("schemas"));
    } catch (error) {
      this.complain(error);
      return null;
    }
    return body;
  }
}

function wrong(where, message) {
  return Object.assign(new Error(message), { where });
}

function tools(text) {
  if (!text.startsWith("[")) return text.split(/[\s,]+/u).filter(Boolean);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw wrong("tools", `tools: ${error.message}`);
  }
}

function object(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw wrong("schemas", `schemas: ${error.message}`);
  }
  if (found !== null && typeof found === "object" && !Array.isArray(found)) return found;
  throw wrong("schemas", "schemas: give an object of names and JSON Schemas");
}
