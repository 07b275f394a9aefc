--- The connection to the server: started when it is needed, restarted when it is lost, one for all of Neovim.
---
--- Invariants: every request is answered: by the server, or with an error as soon as the server is gone. A server that
--- was lost is started again at most five times in a minute, later each time. Params are always sent.
local config = require("handrail.config")
local notice = require("handrail.notice")
local protocol = require("handrail.protocol")

local M = {}

local NAME = "handrail"
local RESTARTS, WITHIN_MS, FIRST_DELAY_MS = 5, 60000, 200

---@class handrail.Failure
---@field code integer
---@field message string
---@field data? handrail.ErrorData

---@alias handrail.Answer fun(failure?: handrail.Failure, result?: any)

local ready ---@type vim.lsp.Client?
local starting = false
local queued = {} ---@type fun(failure?: handrail.Failure, client?: vim.lsp.Client)[]
local unanswered = {} ---@type table<integer, handrail.Answer>
local next_key = 0
local losses = {} ---@type integer[]
local ended = { code = 0, signal = 0 }

--- Called with the params of our two notifications.
M.on_update = function(_) end ---@type fun(snapshot: handrail.Snapshot)
M.on_stream = function(_) end ---@type fun(piece: handrail.StreamParams)
--- Called when the server is gone, and when another one took its place.
M.on_lost = function() end
M.on_back = function() end

--- The client that is connected, if there is one.
---@return vim.lsp.Client?
function M.connected()
  return ready
end

--- Whether the server can be started.
---@return boolean
function M.executable()
  return vim.fn.executable(config.get().cmd[1]) == 1
end

---@param problem string
---@return handrail.Failure
local function failure(problem)
  return { code = protocol.errors.REQUEST_FAILED, message = problem }
end

---@param problem? handrail.Failure
local function release(problem)
  starting = false
  local waiting = queued
  queued = {}
  for _, callback in ipairs(waiting) do
    callback(problem, ready)
  end
end

---@param client vim.lsp.Client
local function initialized(client)
  ready = client
  release()
end

local function begin_restart()
  local now = vim.uv.now()
  losses = vim.tbl_filter(function(at)
    return now - at < WITHIN_MS
  end, losses)
  losses[#losses + 1] = now
  if #losses >= RESTARTS then
    losses = {}
    notice.warn("the server ended five times in a minute and is left; :Handrail log tells why")
    return
  end
  vim.defer_fn(function()
    M.ensure(function(problem)
      if not problem then
        M.on_back()
      end
    end)
  end, FIRST_DELAY_MS * 2 ^ (#losses - 1))
end

local function lost()
  local was_ready = ready ~= nil
  ready = nil
  M.on_lost()
  local problem = failure("The server ended; nothing more was executed.")
  local answers = unanswered
  unanswered = {}
  for _, answer in pairs(answers) do
    answer(problem)
  end
  release(problem)
  local meant = (ended.code == 0 and ended.signal == 0) or vim.v.exiting ~= vim.NIL
  if not meant and was_ready then
    begin_restart()
  elseif not meant then
    notice.warn(("the server ended with code %d before it was ready; :Handrail log tells why"):format(ended.code))
  end
end

--- Start the server's process. Its end is kept from Neovim's own message, which waits for a key on a small screen.
---@param dispatchers vim.lsp.rpc.Dispatchers
---@return vim.lsp.rpc.PublicClient
local function spawn(dispatchers)
  local on_exit = dispatchers.on_exit
  local quiet = vim.tbl_extend("force", dispatchers, {
    on_exit = function(code, signal)
      ended = { code = code, signal = signal }
      on_exit(0, 0)
    end,
  })
  return vim.lsp.rpc.start(config.get().cmd, quiet)
end

--- The configuration for |vim.lsp.config()|; `lsp/handrail.lua` returns it.
---@return vim.lsp.Config
function M.lsp_config()
  return {
    name = NAME,
    cmd = spawn,
    capabilities = { experimental = { handrail = { protocolVersion = protocol.version, approvals = true } } },
    root_dir = function(buffer, on_dir)
      if vim.api.nvim_buf_get_name(buffer) ~= "" and M.executable() then
        on_dir(nil)
      end
    end,
    reuse_client = function(client)
      return client.name == NAME and not client:is_stopped()
    end,
    before_init = function(params, lsp)
      local settings = vim.tbl_deep_extend("force", config.get().settings, lsp.init_options or {})
      params.initializationOptions = next(settings) and settings or vim.empty_dict()
    end,
    on_init = initialized,
    on_exit = vim.schedule_wrap(lost),
    handlers = {
      [protocol.methods.session_didUpdate] = function(_, snapshot)
        M.on_update(snapshot)
      end,
      [protocol.methods.session_didStream] = function(_, piece)
        M.on_stream(piece)
      end,
      ["window/showMessage"] = function(_, params)
        notice.say(params.message, params.type == 1 and vim.log.levels.ERROR or vim.log.levels.WARN)
        return vim.NIL
      end,
    },
  }
end

--- Call back with the connected client; the server is started if there is none.
---@param callback fun(problem?: handrail.Failure, client?: vim.lsp.Client)
function M.ensure(callback)
  if ready then
    return callback(nil, ready)
  end
  if not M.executable() then
    local told = ("the server `%s` is not found: install Handrail, or set cmd (:checkhealth handrail)"):format(
      config.get().cmd[1]
    )
    return callback(failure(told))
  end
  queued[#queued + 1] = callback
  if starting then
    return
  end
  starting = true
  local lsp = vim.deepcopy(vim.lsp.config[NAME] or M.lsp_config())
  lsp.root_dir = nil
  local started = vim.lsp.start(lsp, { attach = false, reuse_client = lsp.reuse_client, silent = true })
  if not started then
    release(failure("the server cannot be started; :Handrail log tells why"))
  end
end

--- Send a request. The answer is always called, once.
---@param method string
---@param params table
---@param answer? handrail.Answer
function M.request(method, params, answer)
  M.ensure(function(problem, client)
    local respond = answer or function(told)
      if told then
        notice.warn(told.message)
      end
    end
    if problem or not client then
      return respond(problem)
    end
    next_key = next_key + 1
    local key = next_key
    unanswered[key] = respond
    local sent = client:request(method, next(params) and params or vim.empty_dict(), function(told, result)
      local waiting = unanswered[key]
      unanswered[key] = nil
      if waiting then
        waiting(told, result)
      end
    end)
    if not sent and unanswered[key] then
      unanswered[key] = nil
      respond(failure("The server is gone; nothing was sent."))
    end
  end)
end

--- Let the server know a buffer, so that it can warn of unsaved changes.
---@param buffer integer
function M.attach(buffer)
  local named = vim.api.nvim_buf_get_name(buffer) ~= "" and vim.bo[buffer].buftype == ""
  if ready and named and vim.api.nvim_buf_is_loaded(buffer) then
    vim.lsp.buf_attach_client(buffer, ready.id)
  end
end

--- End the server in order.
function M.stop()
  if ready then
    ready:stop()
  end
end

return M
