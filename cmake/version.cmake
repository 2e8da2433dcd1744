# Run by the build (cmake -P): writes OUTPUT from INPUT with the version and, in a clone, its commit.
set(version "${VERSION}")
if(EXISTS ${SOURCE_DIR}/.git)
  execute_process(
    COMMAND git --no-optional-locks describe --always --dirty --exclude=* --abbrev=12
    WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0)
    string(APPEND version " (${commit})")
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)  # which leaves the file as it is if nothing has changed
