-- Unit tests of the plugin's pure modules; `nvim -l pure.lua` runs them inside Neovim and names each that fails.
local config = require("handrail.config")
local Flow = require("handrail.flow")
local markdown = require("handrail.markdown")
local protocol = require("handrail.protocol")
local queue = require("handrail.queue")
local text = require("handrail.text")
local view = require("handrail.view")

local tests, failed = {}, 0

local function same(expected, given)
  if not vim.deep_equal(expected, given) then
    error(("expected %s, not %s"):format(vim.inspect(expected), vim.inspect(given)), 2)
  end
end

local function call(more)
  return vim.tbl_extend("force", {
    callId = "1.1",
    position = 1,
    count = 1,
    command = "ls",
    display = "ls",
    lineCount = 1,
    characterCount = 2,
    long = false,
    warnings = {},
    cwd = "file:///home/ada/project",
    addedEnvironment = {},
    digest = "d",
    timeout = 120,
    sandbox = "off",
    unsavedFiles = {},
    status = "awaiting_approval",
  }, more or {})
end

function tests.escape_leaves_words_of_any_language()
  for _, plain in ipairs({ "plain\ttext\n", "grüße", "日本語", "😀", "a\u{301}" }) do
    same(plain, text.escape(plain))
  end
end

function tests.escape_shows_what_hides()
  same("a<U+202E>b<U+200B>c<U+001B>d<U+E0100>e<U+FEFF>", text.escape("a\u{202E}b\u{200B}c\27d\u{E0100}e\u{FEFF}"))
  same("<U+0000><U+007F><U+0085>", text.escape("\0\127\u{85}"))
end

function tests.output_lines_lose_colours_and_what_was_overwritten()
  same("green", text.output_line("\27[1;32mgreen\27[0m"))
  same("100%", text.output_line("10%\r50%\r100%\r"))
  same("link", text.output_line("\27]8;;http://x\27\\link\27]8;;\27\\"))
end

function tests.folding_loses_nothing()
  local row = ("x日"):rep(50) .. "end"
  local pieces = text.fold(row, 20)
  same(row, table.concat(pieces))
  for _, piece in ipairs(pieces) do
    assert(vim.api.nvim_strwidth(piece) <= 20)
  end
end

function tests.tabs_go_to_stops_of_eight()
  same("a       b       c", text.expand_tabs("a\tb\tc"))
end

function tests.numbers_and_costs()
  same("1 step", text.count(1, "step"))
  same("12,345 steps", text.count(12345, "step"))
  same("1,234,567", text.number(1234567))
  same("$0.0042", text.money(0.0042, true))
  same("at least $0.0100", text.money(0.01, false))
  same("cost unknown", text.money(nil, false))
end

function tests.a_flow_takes_each_byte_once()
  local flow = Flow.new()
  same({}, flow:take(0, "ab"))
  same({ "abc" }, flow:take(1, "bc\nd"))
  same({}, flow:take(0, "abc\nd"))
  same("d", flow.partial)
  same({ "dxf" }, flow:take(7, "xf\n"))
  same(2, flow.lost)
  same({}, flow:finish())
end

function tests.markdown_marks_stay_and_fences_end()
  local state = {}
  same({ { 0, 3, "@markup.raw.block" } }, markdown.spans(state, "```"))
  same({ { 0, 6, "@markup.raw.block" } }, markdown.spans(state, "# code"))
  markdown.spans(state, "```")
  same({ { 0, 6, "@markup.heading" } }, markdown.spans(state, "# head"))
  same({ { 2, 8, "@markup.strong" } }, markdown.spans(state, "a **bo**"))
end

function tests.an_unknown_word_is_shown_and_waits_for_nobody()
  same("○ pondering<U+202E>", (view.status(call({ status = "pondering\u{202E}" }))))
  local snapshot = { state = "pondering", pending = { "1.1" }, step = { calls = { call() } } }
  same({}, queue.of({ id = "s", lost = false, snapshot = snapshot }))
end

function tests.only_the_same_digest_is_the_same_request()
  local session = { id = "s", snapshot = { state = "awaiting_approval", pending = { "1.1" }, step = { calls = {} } } }
  session.snapshot.step.calls[1] = call()
  local waiting = queue.of(session)[1]
  assert(queue.still(waiting))
  session.snapshot.step.calls[1] = call({ digest = "other" })
  assert(not queue.still(waiting))
  session.lost = true
  same({}, queue.of(session))
end

function tests.statuses_say_what_became_of_a_call()
  same("✓ exit 0 · 12 ms", (view.status(call({
    status = "completed",
    startedAtMs = 1,
    result = { exitCode = 0, durationMs = 12 },
  }))))
  local told = view.status(call({ status = "rejected", reason = "rejected_by_person", decisionReason = "not now" }))
  same("✗ not run: a person rejected it: not now", told)
  assert(view.status(call({ status = "interrupted", reason = "interrupted" })):find("^✗ interrupted"))
end

function tests.every_reason_not_to_run_has_words()
  for reason, meaning in pairs(protocol.meanings.Reason) do
    local words = view.status(call({ status = "rejected", reason = reason }))
    assert(words:find(meaning, 1, true), words)
  end
end

function tests.commands_are_shown_line_by_line()
  local rows = view.command(call({ display = "one\ntwo " .. ("x"):rep(20) }), 12)
  same(
    { "$ one", "> two xxxxxx", "↪ xxxxxxxxxx", "↪ xxxx" },
    vim.tbl_map(function(row)
      return row[1]
    end, rows)
  )
end

function tests.the_nearest_name()
  same("window", config.nearest("windwo", { "window", "keys" }))
  same(nil, config.nearest("zzzz", { "window", "keys" }))
end

function tests.the_golden_samples_can_be_drawn()
  local path = vim.env.HANDRAIL_SNAPSHOT
  local snapshot = vim.json.decode(table.concat(vim.fn.readfile(path), "\n"), { luanil = { object = true } })
  local waiting = queue.of({ id = snapshot.sessionId, lost = false, snapshot = snapshot })
  same({ "1.1" }, { waiting[1].call.callId })
  same(1, #waiting)
  assert(view.activity(snapshot) == "1 waiting")
  assert(vim.inspect(view.facts(waiting[1].call)):find("calc.py"))
  same("$ git push<U+202E>", view.command(snapshot.step.calls[2])[1][1])
end

for name, test in vim.spairs(tests) do
  local well, problem = pcall(test)
  io.stdout:write((well and "ok " or "FAILED ") .. name .. (well and "" or ": " .. tostring(problem)) .. "\n")
  failed = failed + (well and 0 or 1)
end
os.exit(failed == 0 and 0 or 1)
