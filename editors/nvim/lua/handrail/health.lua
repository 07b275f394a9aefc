--- `:checkhealth handrail`: what is needed, what was found, and what to do about what is missing.
---
--- Invariants: names of keys, never values; the server is asked for at most five seconds.
local approvals = require("handrail.approvals")
local client = require("handrail.client")
local config = require("handrail.config")
local methods = require("handrail.protocol").methods

local M = {}

local PATIENCE_MS = 5000

---@return boolean
local function check_editor()
  vim.health.start("Neovim and configuration")
  if vim.fn.has("nvim-0.11") == 1 then
    vim.health.ok("Neovim " .. tostring(vim.version()))
  else
    vim.health.error("Neovim " .. tostring(vim.version()), "Handrail needs Neovim 0.11 or newer.")
  end
  local problem = config.check()
  if problem then
    vim.health.error("configuration: " .. problem, "The defaults hold. See :help handrail-config.")
  else
    vim.health.ok("configuration")
  end
  local words = config.get().cmd
  local found = vim.fn.exepath(words[1])
  if found == "" then
    vim.health.error(("server: `%s` is not found"):format(words[1]), {
      "Install it: python3 -m pip install handrail, or pipx install handrail.",
      "Or say where it is: vim.g.handrail = { cmd = { '/path/to/handrail', 'serve' } }",
    })
    return false
  end
  vim.health.ok("server: " .. found .. " " .. table.concat(words, " ", 2))
  return true
end

--- Ask the server, waiting for it: this is a report that a person asked for.
---@return handrail.Health?, string?
local function ask()
  local over, problem, health = false, nil, nil
  client.request(methods.server_health, {}, function(told, answer)
    over, problem, health = true, told and told.message, answer
  end)
  vim.wait(PATIENCE_MS, function()
    return over
  end, 20)
  return health, problem or (not over and "it did not answer in time" or nil)
end

---@param health handrail.Health
local function report(health)
  for _, check in ipairs(health.checks) do
    local line = check.name .. ": " .. check.detail
    if check.ok then
      vim.health.ok(line)
    else
      vim.health.warn(line, check.wayOut)
    end
  end
  for _, fact in ipairs(vim.list_extend(health.versions, health.paths)) do
    vim.health.info(fact.name .. ": " .. fact.value)
  end
  local keys = #health.keyNames > 0 and table.concat(health.keyNames, ", ") or "none"
  vim.health.info("keys in the environment: " .. keys)
end

--- Report; called by `:checkhealth handrail`.
function M.check()
  require("handrail")
  local startable = check_editor()
  vim.health.start("Server")
  if startable then
    local health, problem = ask()
    if health then
      report(health)
    else
      vim.health.error(
        "the server did not answer: " .. tostring(problem),
        "See the log: " .. vim.lsp.log.get_filename()
      )
    end
  end
  vim.health.info("log: " .. vim.lsp.log.get_filename())
  local waiting = approvals.count()
  vim.health.info(waiting == 0 and "no command waits" or waiting .. " waiting: :Handrail review")
end

return M
