---@type vim.lsp.Config
return require("handrail.client").lsp_config()
