--- What the person configured, checked, over defaults that need nothing.
---
--- Invariants: an unknown name or a wrong type is refused with the nearest known name; settings come from the person's
--- own configuration alone, never from a workspace's files.
local M = {}

---@class handrail.Config
---@field cmd string[] the command that starts the server
---@field settings handrail.Settings settings of every session, see |handrail-settings|
---@field window string|fun(buffer: integer): integer command that makes the session's window, or what returns one
---@field notify boolean whether a waiting command and the end of a turn are told by vim.notify
---@field bell boolean whether the terminal's bell rings for them while Neovim has not the focus
---@field on_away? fun(message: string) called for them while Neovim has not the focus, for a notice of the system
---@field auto_review boolean open the review by itself while you are in the session's window in normal mode
---@field settle_ms integer keys that approve are dead that long after a command was shown
---@field quickfix boolean put changed files in the quickfix list
---@field keys table<string, string|false> keys in the review and the session, see |handrail-keys|

---@type handrail.Config
M.defaults = {
  cmd = { "handrail", "serve" },
  settings = {},
  window = "botright vsplit",
  notify = true,
  bell = false,
  on_away = nil,
  auto_review = false,
  settle_ms = 300,
  quickfix = true,
  keys = {
    approve = "a",
    edit = "e",
    reject = "r",
    stop = "s",
    remember = "m",
    write_all = "w",
    later = "q",
    review = "a",
    prompt = "i",
    cancel = "<C-c>",
    close = "q",
    output = "o",
    help = "g?",
  },
}

local TYPES = {
  cmd = "table",
  settings = "table",
  window = { "string", "function" },
  notify = "boolean",
  bell = "boolean",
  on_away = "function",
  auto_review = "boolean",
  settle_ms = "number",
  quickfix = "boolean",
  keys = "table",
}

--- Keys by which nothing may ever be approved: they are pressed to make something go away.
local NEVER = { ["<cr>"] = true, ["<esc>"] = true, ["<enter>"] = true, ["<return>"] = true, ["<space>"] = true }
NEVER["<c-m>"], NEVER["<c-[>"] = true, true

local given ---@type table?
local told ---@type string?

--- The distance between two names: how many letters must be changed.
---@param one string
---@param other string
---@return integer
local function distance(one, other)
  local row = {}
  for at = 0, #other do
    row[at] = at
  end
  for first = 1, #one do
    local diagonal = row[0]
    row[0] = first
    for second = 1, #other do
      local changed = diagonal + (one:byte(first) == other:byte(second) and 0 or 1)
      diagonal = row[second]
      row[second] = math.min(changed, row[second] + 1, row[second - 1] + 1)
    end
  end
  return row[#other]
end

--- The known name that is nearest to another one, if one is near.
---@param name string
---@param known string[]
---@return string?
function M.nearest(name, known)
  local best, least = nil, math.max(2, math.floor(#name / 2))
  for _, candidate in ipairs(known) do
    local far = distance(name:lower(), candidate:lower())
    if far < least then
      best, least = candidate, far
    end
  end
  return best
end

---@param name string
---@param known table<string, any>
---@param where string
---@return string
local function unknown(name, known, where)
  local names = vim.tbl_keys(known)
  table.sort(names)
  local near = M.nearest(name, names)
  local way_out = near and ("did you mean `%s`?"):format(near) or "known are " .. table.concat(names, ", ")
  return ("there is no `%s` in %s: %s"):format(name, where, way_out)
end

---@param keys table
---@return string?
local function wrong_keys(keys)
  for name, key in pairs(keys) do
    if M.defaults.keys[name] == nil then
      return unknown(tostring(name), M.defaults.keys, "keys")
    end
    if type(key) ~= "string" and key ~= false then
      return ("keys.%s must be a key such as 'x', or false"):format(name)
    end
    if name ~= "later" and name ~= "close" and NEVER[tostring(key):lower()] then
      return ("keys.%s cannot be %s: Enter, Escape and Space never decide anything"):format(name, key)
    end
  end
end

--- What is wrong with a configuration; nil if nothing is.
---@param config any
---@return string?
function M.problem(config)
  if type(config) ~= "table" then
    return "the configuration must be a table, or a function that returns one"
  end
  for name, value in pairs(config) do
    local wanted = TYPES[name]
    if not wanted then
      return unknown(tostring(name), TYPES, "the configuration")
    end
    if not vim.tbl_contains(type(wanted) == "table" and wanted or { wanted }, type(value)) then
      local words = type(wanted) == "table" and table.concat(wanted, " or ") or wanted
      return ("`%s` must be a %s, not a %s"):format(name, words, type(value))
    end
  end
  if config.cmd and (#config.cmd == 0 or type(config.cmd[1]) ~= "string") then
    return "`cmd` must be a list of words such as { 'handrail', 'serve' }"
  end
  return config.keys and wrong_keys(config.keys)
end

--- Take a configuration, as `setup()` does; nil means vim.g.handrail again.
---@param config? table
function M.set(config)
  given, told = config, nil
end

--- What is wrong with the configuration that is in force.
---@return string?
function M.check()
  local config = given or vim.g.handrail or {}
  if type(config) == "function" then
    local well, result = pcall(config)
    if not well then
      return "the function failed: " .. tostring(result)
    end
    config = result
  end
  return M.problem(config)
end

--- The configuration. A wrong one is told once, and the defaults hold.
---@return handrail.Config
function M.get()
  local config = given or vim.g.handrail or {}
  local problem = M.check()
  if problem then
    if problem ~= told then
      told = problem
      -- Told by a module that needs this one.
      require("handrail.notice").warn(problem .. " (defaults hold; :help handrail-config)")
    end
    return M.defaults
  end
  config = type(config) == "function" and config() or config
  return vim.tbl_deep_extend("force", M.defaults, config)
end

return M
