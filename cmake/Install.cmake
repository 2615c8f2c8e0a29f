# What is installed, by `make install` or `cmake --install`, and the packages that CPack makes of the same.
include(GNUInstallDirs)

option(KVKEEP_INSTALL_LLAMA_SERVER "Install a link named llama-server to kvkeep, for programs that start llama-server" OFF)

install(TARGETS kvkeep)
install(FILES README.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Its code is in the pages that the program has in it.
install(FILES web/vendor/preact/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.preact)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES packaging/grafana/kvkeep.json packaging/prometheus/kvkeep-alerts.yml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# What the program prints about itself (apps/CMakeLists.txt).
if(KVKEEP_MANUAL)
  install(FILES ${KVKEEP_MANUAL}/kvkeep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${KVKEEP_MANUAL}/kvkeep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kvkeep)
  install(FILES ${KVKEEP_MANUAL}/kvkeep.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _kvkeep)
  install(FILES ${KVKEEP_MANUAL}/kvkeep.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# systemd looks into /usr/lib and /usr/local/lib, whatever CMAKE_INSTALL_LIBDIR is.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  install(FILES packaging/kvkeep.service DESTINATION lib/systemd/system)
  install(FILES packaging/kvkeep-user.service DESTINATION lib/systemd/user RENAME kvkeep.service)
  install(FILES packaging/service.env DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
endif()

# What depends on the prefix, which is known at installation.
install(CODE "
  set(docs \"${CMAKE_INSTALL_DOCDIR}\")
  set(programs \"${CMAKE_INSTALL_BINDIR}\")
  set(wants_llama_server ${KVKEEP_INSTALL_LLAMA_SERVER})")
install(SCRIPT cmake/InstallStep.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kvkeep)
set(CPACK_PACKAGE_VENDOR kvkeep)
set(CPACK_PACKAGE_CONTACT "The kvkeep developers <kvkeep@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server for GGUF models that never prefills the same prefix twice")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "kvkeep serves GGUF models on libllama, in the HTTP dialects of OpenAI and
Anthropic. It keeps the keys and values of everything it computed, in the
model's memory, in RAM and on disk, finds the longest known prefix of each new
prompt, and computes only the rest.")
# Libraries, and their versions, as the linked program needs them.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(NOT KVKEEP_LLAMA STREQUAL fetch)
  # libllama's package claims to be as it was since 0.1; kvkeep needs calls of 0.7.
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libllama0 (>= 1:0.7)")
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libggml0-backend-vulkan, libggml0-backend-hip")
include(CPack)
