// Where a RabbitMQ broker is, and as whom to speak to it.
#pragma once

#include <string>
#include <vector>

#include "relay/backends.h"

namespace outbox {

struct AmqpEndpoint {
  bool tls = false;
  std::string host;  // a name or an address, without brackets
  int port = 0;
  std::string vhost = "/";
  bool names_user = false;  // the URL does
  std::string username = "guest";
  std::string password = "guest";
  std::string label;  // host and port, for messages
};

struct ParsedAmqpEndpoint {
  AmqpEndpoint endpoint;
  std::string error;  // empty if the URL is one
};

// amqp[s]://[user[:password]@]host[:port][/vhost] (RabbitMQ's URI specification), user and vhost
// percent-encoded. Without a user: guest. Without a vhost, or with an empty one: "/".
ParsedAmqpEndpoint parse_amqp_endpoint(const std::string& url);

// Puts in as whom to log in; the password is read anew. An error sentence or empty.
std::string read_login(const PublisherSettings& settings, AmqpEndpoint& endpoint);

// What is wrong with the settings, found without connecting. Reads the files that they name.
std::vector<SettingDefect> check_rabbitmq_settings(const PublisherSettings& settings);

}  // namespace outbox
