// What broker test says about a real RabbitMQ server.
#include "publishers/rabbitmq/link_test.h"
#include "tests/conformance/rabbitmq_test_support.h"
#include "tests/temporary_file.h"

namespace outbox {
namespace {

using namespace testing;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The only finding's code, and that its advice names `advice`.
std::string code_of(const PublisherSettings& settings, const std::string& advice) {
  const BootClock clock;
  const BrokerTest test = test_rabbitmq_broker(settings, clock);
  if (test.findings.size() != 1) return fmt::format("{} findings", test.findings.size());
  const Finding& finding = test.findings.front();
  CAPTURE(finding.what);
  CAPTURE(finding.fix);
  CHECK(contains(finding.fix, advice));
  CHECK_FALSE(contains(finding.what, ".."));
  return finding.code;
}

std::string code_of_sent(const PublisherSettings& settings, const std::string& advice) {
  const Receipt receipt = Sender(settings).publish(make_message("one"));
  const auto finding = explain_rabbitmq_receipt(settings, receipt);
  if (!finding) return "none";
  CAPTURE(finding->what);
  CAPTURE(finding->fix);
  CHECK(contains(finding->fix, advice));
  return finding->code;
}

}  // namespace

TEST_CASE("each thing that may be wrong with a broker has its code and its advice") {
  RabbitmqUnderTest broker;
  PublisherSettings settings = broker.settings();
  CHECK(code_of(settings, "") == "0 findings");
  settings.exchange = "missing";
  CHECK(code_of(settings, "Declare the exchange missing") == "broker_path");
  settings = broker.settings();
  settings.url += "/nowhere";
  CHECK(code_of(settings, "vhost") == "broker_denied");
  settings.url = "amqp://127.0.0.1:1";
  CHECK(code_of(settings, "Start the broker") == "broker_unreachable");
  settings.url = "amqp://nowhere.invalid";
  CHECK(code_of(settings, "host") == "broker_name");
  settings.url = server().words().at(1);
  CHECK(code_of(settings, "tls.caFile") == "broker_tls");
  settings.tls.ca_file = server().words().at(2) + "/ca.pem";
  CHECK(code_of(settings, "tls.certFile") == "broker_tls");
}

TEST_CASE("what a user may not do is told apart from a wrong password and from limits") {
  RabbitmqUnderTest broker;
  server().order("add_user limited secret");
  server().order("set_permissions limited ^$ ^$ ^$");
  TemporaryFile password("wrong");
  PublisherSettings settings = broker.settings();
  settings.username = "limited";
  settings.password_file = password.path();
  CHECK(code_of(settings, "change_password") == "broker_denied");
  password.write("secret");
  CHECK(code_of(settings, "") == "0 findings");
  CHECK(code_of_sent(settings, "set_permissions -p '/' 'limited' '' '^" + broker.name()) ==
        "broker_denied");
  server().order("set_user_limits limited '{\"max-channels\": 1}'");
  CHECK(code_of(settings, "two channels") == "broker_denied");
  password.remove();
  CHECK(code_of(settings, "Mend the file") == "broker_credentials");
  server().order("delete_user limited");
}

TEST_CASE("a test event that no queue is bound for is explained") {
  RabbitmqUnderTest broker;
  broker.consumer.unbind(broker.name(), broker.name());
  CHECK(code_of_sent(broker.settings(), "Bind a queue") == "broker_path");
  broker.consumer.bind(broker.name(), broker.name());
  CHECK(code_of_sent(broker.settings(), "") == "none");
}

}  // namespace outbox
