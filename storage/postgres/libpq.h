// PostgreSQL's client library, which is loaded when a PostgreSQL outbox is first spoken of.
#pragma once

#include <libpq-fe.h>

namespace outbox::postgres {

// The functions of libpq by their own names. Linked as usual, the library and the twenty that it
// needs would cost every relay 3.6 MB of memory, also those that never see a PostgreSQL server.
struct LibPq {
  decltype(&::PQbackendPID) PQbackendPID;
  decltype(&::PQclear) PQclear;
  decltype(&::PQcmdStatus) PQcmdStatus;
  decltype(&::PQcmdTuples) PQcmdTuples;
  decltype(&::PQconnectPoll) PQconnectPoll;
  decltype(&::PQconnectStartParams) PQconnectStartParams;
  decltype(&::PQconninfoFree) PQconninfoFree;
  decltype(&::PQconninfoParse) PQconninfoParse;
  decltype(&::PQconsumeInput) PQconsumeInput;
  decltype(&::PQenterPipelineMode) PQenterPipelineMode;
  decltype(&::PQerrorMessage) PQerrorMessage;
  decltype(&::PQexitPipelineMode) PQexitPipelineMode;
  decltype(&::PQfinish) PQfinish;
  decltype(&::PQflush) PQflush;
  decltype(&::PQfreemem) PQfreemem;
  decltype(&::PQgetResult) PQgetResult;
  decltype(&::PQgetisnull) PQgetisnull;
  decltype(&::PQgetlength) PQgetlength;
  decltype(&::PQgetvalue) PQgetvalue;
  decltype(&::PQisBusy) PQisBusy;
  decltype(&::PQnfields) PQnfields;
  decltype(&::PQnotifies) PQnotifies;
  decltype(&::PQntuples) PQntuples;
  decltype(&::PQparameterStatus) PQparameterStatus;
  decltype(&::PQpipelineSync) PQpipelineSync;
  decltype(&::PQresultErrorField) PQresultErrorField;
  decltype(&::PQresultErrorMessage) PQresultErrorMessage;
  decltype(&::PQresultStatus) PQresultStatus;
  decltype(&::PQsendPrepare) PQsendPrepare;
  decltype(&::PQsendQuery) PQsendQuery;
  decltype(&::PQsendQueryParams) PQsendQueryParams;
  decltype(&::PQsendQueryPrepared) PQsendQueryPrepared;
  decltype(&::PQserverVersion) PQserverVersion;
  decltype(&::PQsetNoticeReceiver) PQsetNoticeReceiver;
  decltype(&::PQsetnonblocking) PQsetnonblocking;
  decltype(&::PQsocket) PQsocket;
  decltype(&::PQstatus) PQstatus;
  decltype(&::PQtransactionStatus) PQtransactionStatus;
};

// Throws SettingsError, with what to install, if the library is not there. From any thread.
const LibPq& libpq();

}  // namespace outbox::postgres
