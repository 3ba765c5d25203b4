# Writes OUT, one script, from the modules of the page: in PAGE, each named before those that import it.
#   cmake -DOUT=... -DPAGE=... -DMODULES=text,chart,page -P bundle.cmake
# A report is one file, and a module cannot be imported from a file on disk. Each module becomes a function that returns
# what it exports; what it imports must stand on lines of the form: import { a, b } from "/module.js";
string(REPLACE "," ";" MODULES "${MODULES}")
file(WRITE ${OUT} "\"use strict\";\n")
foreach(module ${MODULES})
  file(READ ${PAGE}/${module}.js text)
  string(REGEX MATCHALL "\nexport (const|function|class) [A-Za-z]+" exported "${text}")
  string(REGEX REPLACE "\nexport (const|function|class) " "" exported "${exported}")
  string(REPLACE ";" ", " exported "${exported}")
  string(REGEX REPLACE "\nexport " "\n" text "${text}")
  string(REGEX REPLACE "\nimport ({[^}]*}) from \"/([a-z_]+)\\.js\"" "\nconst \\1 = module_\\2" text "${text}")
  if("${text}" MATCHES "\n(import|export) [^\n]*")
    message(FATAL_ERROR "${module}.js: cannot be bundled: ${CMAKE_MATCH_0}")
  endif()
  file(APPEND ${OUT} "\nconst module_${module} = (() => {\n${text}\nreturn { ${exported} };\n})();\n")
endforeach()
