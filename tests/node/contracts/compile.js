// Rewrites contracts.json from the .sol files beside this one:
//   npm install --no-save solc@0.8.37 && node compile.js
const fs = require("fs");
const path = require("path");
const solc = require("solc");

const read = (name) => ({ content: fs.readFileSync(path.join(__dirname, name), "utf8") });
const names = ["Marketplace", "Multicall", "Registry", "Token"];
const input = {
  language: "Solidity",
  sources: Object.fromEntries(names.map((name) => [`${name}.sol`, read(`${name}.sol`)])),
  settings: {
    evmVersion: "paris",
    optimizer: { enabled: true, runs: 200 },
    viaIR: true,
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
for (const error of output.errors || []) console.error(error.formattedMessage);
if ((output.errors || []).some((error) => error.severity === "error")) process.exit(1);
const code = (name) => output.contracts[`${name}.sol`][name].evm.bytecode.object;
const made = Object.fromEntries(names.map((name) => [name, code(name)]));
fs.writeFileSync(
  path.join(__dirname, "contracts.json"),
  JSON.stringify({ compiler: solc.version(), ...made }, null, 1) + "\n",
);
