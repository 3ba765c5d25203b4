# Writes OUT, the source file that says which commit of SOURCE the program is built from: "unknown" outside git, with a
# "+" behind it when tracked files had changes. An unchanged file is left alone, so nothing is compiled again.
execute_process(
  COMMAND git --no-optional-locks --git-dir=${SOURCE}/.git --work-tree=${SOURCE}
          describe --always --exclude=* --abbrev=40 --dirty=+
  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(COMMIT unknown)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/commit.cpp.in ${OUT} @ONLY)
