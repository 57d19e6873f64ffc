# Makes a text file part of the program: outbox_embed(<target> <function> <file>) adds a source that
# defines `std::string_view outbox::<function>()`, which returns the file's text.
# Run as a script (cmake -P) it writes that source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${INPUT}" text)
  file(WRITE "${OUTPUT}"
"#include <string_view>

namespace outbox {

std::string_view ${FUNCTION}();
std::string_view ${FUNCTION}() {
  return R\"embedded_text(${text})embedded_text\";
}

}  // namespace outbox
")
  return()
endif()

set(OUTBOX_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(outbox_embed target function file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUTPUT=${source}
      -DFUNCTION=${function} -P ${OUTBOX_EMBED_SCRIPT}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${OUTBOX_EMBED_SCRIPT}
    COMMENT "Embedding ${file}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
