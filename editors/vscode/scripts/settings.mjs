// Writes the server's settings into package.json, from the one definition of the protocol. With --check: only compares.
import { readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const manifestFile = new URL("../package.json", import.meta.url);
const protocol = JSON.parse(readFileSync(new URL("../../../server/protocol.schema.json", import.meta.url), "utf8"));
const manifest = JSON.parse(readFileSync(manifestFile, "utf8"));

/** Replace references by what they name: the editor's settings take none. */
function resolved(schema) {
  if (Array.isArray(schema)) return schema.map(resolved);
  if (typeof schema !== "object" || schema === null) return schema;
  if (schema.$ref) {
    const { $ref, ...rest } = schema;
    return { ...resolved(protocol.$defs[$ref.split("/").at(-1)]), ...rest };
  }
  return Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, resolved(value)]));
}

const OWN = {
  "handrail.server.command": {
    type: "array",
    items: { type: "string" },
    default: [],
    scope: "machine",
    order: 0,
    markdownDescription:
      'The command that starts the server, a word an entry, for example `["/path/to/handrail", "serve"]`. Empty: ' +
      "it is looked for in the selected Python environment, then on PATH.",
  },
  "handrail.trace.server": {
    type: "string",
    enum: ["off", "messages", "verbose"],
    default: "off",
    scope: "window",
    order: 90,
    description: "What is logged of the messages between the editor and the server.",
  },
};

// A workspace's files must not choose any of them: each either loosens, or spends the person's money.
const generated = Object.entries(resolved(protocol.$defs.Settings.properties)).map(
  ([name, { examples, ...schema }], at) => [
    `handrail.${name}`,
    {
      ...schema,
      ...(schema.type === "object" ? { additionalProperties: schema.additionalProperties ?? false } : {}),
      scope: "machine",
      order: at + 1,
    },
  ],
);
const configuration = { title: "Handrail", properties: { ...OWN, ...Object.fromEntries(generated) } };
if (process.argv.includes("--check")) {
  if (!isDeepStrictEqual(manifest.contributes.configuration, configuration)) {
    console.error("The settings in package.json are not those of the server; run `npm run settings`.");
    process.exit(1);
  }
} else {
  manifest.contributes.configuration = configuration;
  writeFileSync(manifestFile, JSON.stringify(manifest, null, 2) + "\n");
}
