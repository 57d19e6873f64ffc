// Every metric's name and meaning, in one place: what dashboards and alerts are written against.
#pragma once

namespace outbox::metric {

struct Family {
  const char* name;
  const char* help;
};

// The event type under which all those are booked that have no series of their own.
inline constexpr const char* kOtherEventTypes = "__other__";

namespace label {
inline constexpr const char* kBroker = "broker";
inline constexpr const char* kEndpoint = "endpoint";
inline constexpr const char* kEventType = "event_type";
inline constexpr const char* kKind = "kind";
inline constexpr const char* kOperation = "operation";
inline constexpr const char* kReason = "reason";
inline constexpr const char* kRevision = "revision";
inline constexpr const char* kSha256 = "sha256";
inline constexpr const char* kSource = "source";
inline constexpr const char* kState = "state";
inline constexpr const char* kStatus = "status";
inline constexpr const char* kTo = "to";
inline constexpr const char* kVersion = "version";
}  // namespace label

// The broker and its circuit.
inline constexpr Family kBrokerCircuitOpen{
    "outbox_relay_broker_circuit_open_total",
    "Messages that an open circuit turned away without an attempt on the wire."};
inline constexpr Family kBrokerFault{
    "outbox_relay_broker_fault_total",
    "Messages whose retries are spent, once each. Source publish: dead-lettered by this relay; "
    "consume: reported by a fault observer on the consumers' side."};
inline constexpr Family kBrokerCircuitState{
    "outbox_relay_broker_circuit_state",
    "State of the circuit breaker: 1 for the state it is in, 0 for the others."};
inline constexpr Family kBrokerCircuitTransitions{"outbox_relay_broker_circuit_transitions_total",
                                                  "Changes of the circuit's state, by new state."};
inline constexpr Family kBrokerCircuitOpenSeconds{
    "outbox_relay_broker_circuit_open_seconds_total",
    "Time that the circuit has spent in state open; it grows while the circuit is open."};
inline constexpr Family kBrokerCircuitNextProbe{
    "outbox_relay_broker_circuit_next_probe_timestamp_seconds",
    "When the broker will be tried again, as Unix time; 0 unless the circuit is open."};
inline constexpr Family kBrokerUp{
    "outbox_relay_broker_up",
    "1 if the broker answered the last publish, whatever it said; 0 if that ended in a transport "
    "failure. 1 until there was a publish."};
inline constexpr Family kBrokerInFlightLimit{
    "outbox_relay_broker_in_flight_limit",
    "Messages that may travel at once; fewer for a while after the circuit was open."};
inline constexpr Family kBrokerInfo{"outbox_relay_broker_info",
                                    "The broker's address, without credentials; always 1."};
inline constexpr Family kDestinationsHeld{
    "outbox_relay_destinations_held",
    "Destinations that get one probe a minute, since most of their answers were errors that only "
    "an operator can mend."};

// Delivery.
inline constexpr Family kPublishAttempts{
    "outbox_relay_publish_attempts_total",
    "Messages put on the wire, or that may have been, each attempt counted."};
inline constexpr Family kPublished{"outbox_relay_published_total",
                                   "Messages that the broker confirmed."};
inline constexpr Family kPublishFailures{"outbox_relay_publish_failures_total",
                                         "Publishes that ended without a confirmation."};
inline constexpr Family kRetries{"outbox_relay_retries_total",
                                 "Failed publishes whose message is due again later."};
inline constexpr Family kDeadLettered{"outbox_relay_dead_lettered_total",
                                      "Messages that this relay gave up."};
inline constexpr Family kRedriven{
    "outbox_relay_redriven_total",
    "Dead letters that an operator moved back to pending through this process."};
inline constexpr Family kRedelivered{
    "outbox_relay_redelivered_total",
    "Attempts marked as possible duplicates, since an earlier outcome is unknown."};
inline constexpr Family kDeliveryLag{"outbox_relay_delivery_lag_seconds",
                                     "Time from an event to its confirmation by the broker."};
inline constexpr Family kPublishDuration{
    "outbox_relay_publish_duration_seconds",
    "Time from the start of an attempt on the wire to its outcome."};

// The backlog.
inline constexpr Family kMessages{"outbox_relay_messages",
                                  "Unfinished and dead-lettered messages, as of the last sample."};
inline constexpr Family kOldestPendingAge{
    "outbox_relay_oldest_pending_age_seconds",
    "Age of the oldest message that is neither processed nor dead; 0 if there was none. It is "
    "carried forward from the last sample, so it also grows when sampling is stuck."};
inline constexpr Family kDeadLetters{"outbox_relay_dead_letters",
                                     "Dead letters in the outbox, as of the last sample."};
inline constexpr Family kBacklogSample{
    "outbox_relay_backlog_sample_timestamp_seconds",
    "When the backlog was last sampled, as Unix time; 0 before the first sample."};

// The store and the loop.
inline constexpr Family kStoreUp{
    "outbox_relay_store_up",
    "1 if the last turn at the database worked, 0 if it did not, or there was none yet."};
inline constexpr Family kStoreFaults{
    "outbox_relay_store_faults_total",
    "Operations on the database that failed. settle: a single row that could not be written."};
inline constexpr Family kStoreOperationDuration{"outbox_relay_store_operation_duration_seconds",
                                                "Time that operations on the database took."};
inline constexpr Family kLeasesHeld{"outbox_relay_leases_held", "Rows leased to this relay."};
inline constexpr Family kLeaseExpired{"outbox_relay_lease_expired_total",
                                      "Leases of dead or silent relays that this relay ended."};
inline constexpr Family kSettlementsFenced{
    "outbox_relay_settlements_fenced_total",
    "Settlements that came after their lease had ended and changed nothing."};
inline constexpr Family kActive{
    "outbox_relay_active",
    "1 while this relay works on its outbox, 0 before, after and on standby."};
inline constexpr Family kPaused{"outbox_relay_paused", "1 while an operator has paused relaying."};
inline constexpr Family kLastPollSuccess{
    "outbox_relay_last_poll_success_timestamp_seconds",
    "When a turn at the database last worked, as Unix time; 0 before the first."};
inline constexpr Family kSqliteWalBytes{
    "outbox_relay_sqlite_wal_bytes", "Size of the database's write-ahead log file; 0 without one."};
inline constexpr Family kSqliteBusy{
    "outbox_relay_sqlite_busy_total",
    "Turns that did not begin because another connection was writing."};

// The rest.
inline constexpr Family kConfigLastReloadSuccessful{
    "outbox_relay_config_last_reload_successful",
    "0 if the configuration file as it is now was refused, and the settings stayed as they were; "
    "else 1."};
inline constexpr Family kConfigInfo{"outbox_relay_config_info",
                                    "Digest of the configuration in use; always 1."};
inline constexpr Family kTlsCertificateExpiry{
    "outbox_relay_tls_certificate_expiry_timestamp_seconds",
    "When the first certificate of the broker's chain expires, as of the last handshake, as Unix "
    "time; no sample before the first one, or without TLS."};
inline constexpr Family kMetricLabelOverflow{
    "outbox_relay_metric_label_overflow_total",
    "Counts booked under event_type __other__ because their event type has no series: the limit is "
    "reached, or the name can't be a label."};
inline constexpr Family kBuildInfo{"outbox_relay_build_info", "Version of this program; always 1."};

// The process, under the names that all Prometheus clients use.
inline constexpr Family kProcessCpu{"process_cpu_seconds_total",
                                    "User and system CPU time spent, in seconds."};
inline constexpr Family kProcessResidentMemory{"process_resident_memory_bytes",
                                               "Resident memory size, in bytes."};
inline constexpr Family kProcessOpenFds{"process_open_fds", "Open file descriptors."};
inline constexpr Family kProcessMaxFds{"process_max_fds",
                                       "Maximum number of open file descriptors."};
inline constexpr Family kProcessStartTime{"process_start_time_seconds",
                                          "Start time of the process, as Unix time."};

}  // namespace outbox::metric
