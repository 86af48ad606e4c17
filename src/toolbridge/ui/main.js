/** Starts the page: its views, its keys, and the feed of requests that all views share. */
import { hasKey, setKey } from "./client.js";
import { RequestFeed } from "./feed.js";
import { ModelsView } from "./models_view.js";
import { ProvidersView } from "./providers_view.js";
import { RequestView } from "./request_view.js";
import { RequestsView, fillFirstSteps } from "./requests_view.js";
import { addView, go, route, shownView, start } from "./router.js";
import { enterRuns, leaveRuns, offerModels } from "./runs_view.js";
import { describeKey, onKey, showShortcuts } from "./shortcuts.js";
import { nextTheme } from "./theme.js";
import { UsageView } from "./usage_view.js";

const at = (id) => document.getElementById(id);
const STATES = { connecting: "connecting", live: "live", lost: "connection lost", refused: "key needed", limited: "not allowed" };

const requests = new RequestsView();
const request = new RequestView((id, step) => requests.list.neighbour(id, step));
const usage = new UsageView();
const models = new ModelsView();
const providers = new ProvidersView();
const feed = new RequestFeed(take, showState);

function take(rows, first) {
  requests.take(rows, first);
  const ended = rows.some((row) => row.id === request.id && !row.running);
  if (ended && !first && shownView() === "request") request.refresh();
}

function showState(state, wait) {
  at("live").dataset.state = state;
  at("live-text").textContent = STATES[state];
  at("lost").hidden = state !== "lost";
  at("lost-text").textContent = `The connection to the gateway is lost. The next attempt is in ${Math.ceil(wait / 1000)} s.`;
}

// ── the key ──────────────────────────────────────────────────────────────────

function askForKey(error) {
  // Before the first key there is no error; the heading is enough.
  at("key-problem").textContent = error.status === 403 ? error.message : "";
  at("key-form").hidden = false;
  at("views").hidden = true;
  showState("refused", 0);
  at("key").focus();
}

async function connect() {
  try {
    await offerModels();
  } catch (error) {
    askForKey(error);
    return;
  }
  at("key-form").hidden = true;
  at("views").hidden = false;
  at("forget").hidden = !hasKey();
  feed.run().catch((error) => (error.wantsKey ? askForKey(error) : requests.refuse(error)));
}

at("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setKey(at("key").value.trim());
  at("key").value = "";
  await connect();
  if (at("key-form").hidden) route(); // the view is filled under the new key
});
at("forget").addEventListener("click", () => {
  setKey("");
  feed.stop();
  location.reload();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment of the address names a view
  at("views").focus();
});
at("retry").addEventListener("click", () => feed.retry());

// ── views and keys ───────────────────────────────────────────────────────────

const runs = { section: "view-runs", tab: "runs", leave: leaveRuns };
addView("requests", { section: "view-requests", tab: "requests", title: "Requests", enter: () => requests.enter() });
addView("request", { section: "view-request", tab: "requests", title: "Request", enter: (id) => request.enter(id) });
addView("runs", { ...runs, title: "Runs", enter: () => enterRuns("", askForKey) });
addView("run", { ...runs, title: "Run", enter: (id) => enterRuns(id, askForKey) });
addView("usage", { section: "view-usage", tab: "usage", title: "Usage", enter: () => usage.enter() });
addView("models", { section: "view-models", tab: "models", title: "Models", enter: (name) => models.enter(name) });
addView("providers", { section: "view-providers", tab: "providers", title: "Providers", enter: () => providers.enter(), leave: () => providers.leave() });

["requests", "runs", "usage", "models", "providers"].forEach((name, index) => {
  onKey(String(index + 1), `Open ${name}`, () => go(name));
});
onKey("/", "Search", () => {
  const field = document.querySelector(".view:not([hidden]) input[type=search]");
  field?.focus();
  return field !== null;
});
onKey("j", "Next request", () => step(1));
describeKey("↓", "Next request");
onKey("k", "Previous request", () => step(-1));
describeKey("↑", "Previous request");
describeKey("Enter", "Open the request");
onKey("p", "Pause or resume the list", () => shownView() === "requests" && requests.togglePause());
onKey("f", "Follow the newest requests", () => shownView() === "requests" && requests.follow());
onKey("Escape", "Back to the list", () => (shownView() === "request" ? go("requests") : false));
onKey("t", "Change the theme", () => nextTheme());
onKey("?", "This list", () => showShortcuts());

function step(by) {
  if (shownView() === "request") request.step(by);
  else if (shownView() === "requests") requests.list.move(by);
  else return false;
  return true;
}

fillFirstSteps();
start();
connect();
