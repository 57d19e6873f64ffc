// Where exceptions of this backend become answers.
#pragma once

#include <string>

#include "relay/outbox_desk.h"
#include "storage/sqlite/connection.h"

namespace outbox::sqlite {

// What `work` makes of the value; an exception is the answer's error, beside what was done before.
template <class Value, class Work>
Answer<Value> answered(const std::string& path, const Work& work) {
  Answer<Value> answer;
  try {
    work(answer.value);
  } catch (const SQLite::Exception& error) {
    answer.error = describe(path, error);
  } catch (const OtherVersion& error) {
    answer.error = error.what();
    answer.newer = true;
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  return answer;
}

}  // namespace outbox::sqlite
