// Formats Lua files as editors/nvim/.stylua.toml says: `node stylua.mjs [--fix] FILE...`; names those that differ.
import { readFileSync, writeFileSync } from "node:fs";
import { Config, IndentType, OutputVerification, QuoteStyle, formatCode } from "@johnnymorganz/stylua";

// Each call takes its configuration away, so each gets a new one.
function config() {
  const made = Config.new();
  made.column_width = 120;
  made.indent_type = IndentType.Spaces;
  made.indent_width = 2;
  made.quote_style = QuoteStyle.AutoPreferDouble;
  return made;
}

const fix = process.argv.includes("--fix");
const differing = process.argv.slice(2).filter((file) => {
  if (file === "--fix") return false;
  const code = readFileSync(file, "utf8");
  const formatted = formatCode(code, config(), undefined, OutputVerification.Full);
  if (fix && code !== formatted) writeFileSync(file, formatted);
  return code !== formatted;
});
for (const file of differing) console.log(file);
process.exitCode = differing.length && !fix ? 1 : 0;
