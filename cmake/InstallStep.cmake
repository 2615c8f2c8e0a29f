# Runs at installation, after the files are copied. `docs` and `programs` are folders below the prefix.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

# The page's links to folders of the source would lead nowhere: they become names.
file(READ "${CMAKE_CURRENT_LIST_DIR}/../ARCHITECTURE.md" page)
string(REGEX REPLACE "\\[(`[^`]*`)\\]\\((src|bench|model_maker|web)[^)]*\\)" "\\1" page "${page}")
file(WRITE "${root}/${docs}/ARCHITECTURE.md" "${page}")

# `make install LLAMA_SERVER=1` asks for the link without configuring anew.
if(wants_llama_server OR "$ENV{LLAMA_SERVER}")
  set(link "${root}/${programs}/llama-server")
  if(EXISTS "${link}" AND NOT IS_SYMLINK "${link}")
    message(FATAL_ERROR "${link} is a program, not a link: remove it, or install without LLAMA_SERVER")
  endif()
  file(CREATE_LINK kvkeep "${link}" SYMBOLIC)
  message(STATUS "Installing: ${link} -> kvkeep")
endif()
