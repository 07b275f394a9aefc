--- The embedded demo: a recorded model repairs a small project; the commands are real and you decide each.
---
--- Invariants: it works in a temporary folder that Neovim removes when it ends; no key and no network is needed.
local config = require("handrail.config")
local notice = require("handrail.notice")
local sessions = require("handrail.session")
local window = require("handrail.window")

local M = {}

--- The command that prepares the demo: the one that serves, asked for something else.
---@param folder string
---@return string[]
local function command(folder)
  local words = vim.deepcopy(config.get().cmd)
  if words[#words] == "serve" then
    table.remove(words)
  else
    words = { "handrail" }
  end
  return vim.list_extend(words, { "demo", "--prepare", folder })
end

---@param done vim.SystemCompleted
local function begin(done)
  local well, demo = pcall(vim.json.decode, done.stdout)
  if done.code ~= 0 or not well then
    return notice.warn("the demo could not be prepared: " .. (done.stderr ~= "" and done.stderr or done.stdout))
  end
  sessions.new(vim.uri_to_fname(demo.cwd), demo.settings, function(session)
    window.open(session)
    window.prompt(session, demo.task)
    notice.say("the demo: :w sends this prompt, `a` shows what waits, `a` again approves")
  end)
end

--- Prepare the demo and offer its prompt.
function M.run()
  local words = command(vim.fn.tempname())
  if vim.fn.executable(words[1]) == 0 then
    return notice.warn(("`%s` is not found: install Handrail, or set cmd (:checkhealth handrail)"):format(words[1]))
  end
  vim.system(words, { text = true }, vim.schedule_wrap(begin))
end

return M
