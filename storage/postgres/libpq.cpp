#include "storage/postgres/libpq.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "relay/backends.h"

namespace outbox::postgres {
namespace {

constexpr const char* kFile = "libpq.so.5";

[[noreturn]] void fail() {
  throw SettingsError(
      fmt::format("needs PostgreSQL's client library: install the package libpq5 ({})", dlerror()));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail();
}

LibPq load() {
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);  // for good: it is never closed
  if (library == nullptr) fail();
  LibPq all{};
  find(library, "PQbackendPID", all.PQbackendPID);
  find(library, "PQclear", all.PQclear);
  find(library, "PQcmdStatus", all.PQcmdStatus);
  find(library, "PQcmdTuples", all.PQcmdTuples);
  find(library, "PQconnectPoll", all.PQconnectPoll);
  find(library, "PQconnectStartParams", all.PQconnectStartParams);
  find(library, "PQconninfoFree", all.PQconninfoFree);
  find(library, "PQconninfoParse", all.PQconninfoParse);
  find(library, "PQconsumeInput", all.PQconsumeInput);
  find(library, "PQenterPipelineMode", all.PQenterPipelineMode);
  find(library, "PQerrorMessage", all.PQerrorMessage);
  find(library, "PQexitPipelineMode", all.PQexitPipelineMode);
  find(library, "PQfinish", all.PQfinish);
  find(library, "PQflush", all.PQflush);
  find(library, "PQfreemem", all.PQfreemem);
  find(library, "PQgetResult", all.PQgetResult);
  find(library, "PQgetisnull", all.PQgetisnull);
  find(library, "PQgetlength", all.PQgetlength);
  find(library, "PQgetvalue", all.PQgetvalue);
  find(library, "PQisBusy", all.PQisBusy);
  find(library, "PQnfields", all.PQnfields);
  find(library, "PQnotifies", all.PQnotifies);
  find(library, "PQntuples", all.PQntuples);
  find(library, "PQparameterStatus", all.PQparameterStatus);
  find(library, "PQpipelineSync", all.PQpipelineSync);
  find(library, "PQresultErrorField", all.PQresultErrorField);
  find(library, "PQresultErrorMessage", all.PQresultErrorMessage);
  find(library, "PQresultStatus", all.PQresultStatus);
  find(library, "PQsendPrepare", all.PQsendPrepare);
  find(library, "PQsendQuery", all.PQsendQuery);
  find(library, "PQsendQueryParams", all.PQsendQueryParams);
  find(library, "PQsendQueryPrepared", all.PQsendQueryPrepared);
  find(library, "PQserverVersion", all.PQserverVersion);
  find(library, "PQsetNoticeReceiver", all.PQsetNoticeReceiver);
  find(library, "PQsetnonblocking", all.PQsetnonblocking);
  find(library, "PQsocket", all.PQsocket);
  find(library, "PQstatus", all.PQstatus);
  find(library, "PQtransactionStatus", all.PQtransactionStatus);
  return all;
}

}  // namespace

const LibPq& libpq() {
  static const LibPq kLibrary = load();
  return kLibrary;
}

}  // namespace outbox::postgres
