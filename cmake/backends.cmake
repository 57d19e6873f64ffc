# One backend: a folder below storage/ or publishers/ that becomes a static library and registers
# itself with add_<name>_<kind>(Backends&). A backend whose packages are missing is left out, and the
# program says which ones it has.
#
#   outbox_backend(store sqlite PKG sqlite3 LIBS SQLiteCpp)
set_property(GLOBAL PROPERTY OUTBOX_BACKENDS "")

function(outbox_backend kind name)
  cmake_parse_arguments(ARG "" "" "PKG;LIBS" ${ARGN})
  string(TOUPPER "OUTBOX_${kind}_${name}" option)
  option(${option} "Build the ${name} ${kind}" ON)
  if(NOT ${option})
    return()
  endif()
  set(libraries ${ARG_LIBS})
  foreach(package IN LISTS ARG_PKG)
    pkg_check_modules(${package} IMPORTED_TARGET GLOBAL ${package})
    if(NOT ${package}_FOUND)
      message(STATUS "outbox-relay: no ${name} ${kind}: package ${package} is missing")
      return()
    endif()
    list(APPEND libraries PkgConfig::${package})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(outbox_${name}_${kind} STATIC ${sources})
  target_link_libraries(outbox_${name}_${kind} PUBLIC outbox_core ${libraries} PRIVATE fmt::fmt)
  set_property(GLOBAL APPEND PROPERTY OUTBOX_BACKENDS "${name}_${kind}")
  message(STATUS "outbox-relay: ${kind} ${name}")
endfunction()

# Writes the function that fills the registry, into a library that links every backend.
function(outbox_built_in_backends target)
  get_property(backends GLOBAL PROPERTY OUTBOX_BACKENDS)
  set(declarations "")
  set(calls "")
  add_library(${target} STATIC ${CMAKE_CURRENT_BINARY_DIR}/built_in_backends.cpp)
  foreach(backend IN LISTS backends)
    string(APPEND declarations "void add_${backend}(Backends&);\n")
    string(APPEND calls "  add_${backend}(backends);\n")
    target_link_libraries(${target} PUBLIC outbox_${backend})
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/built_in_backends.cpp CONTENT
"#include \"relay/backends.h\"

namespace outbox {

${declarations}
void add_built_in_backends([[maybe_unused]] Backends& backends) {
${calls}}

}  // namespace outbox
")
  target_link_libraries(${target} PUBLIC outbox_core)
endfunction()
