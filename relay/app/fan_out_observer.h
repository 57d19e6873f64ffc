// Hands what one relay tells to several observers, in their order.
#pragma once

#include <utility>
#include <vector>

#include "relay/observer.h"

namespace outbox {

// The observers outlive it.
class FanOutObserver final : public RelayObserver {
 public:
  explicit FanOutObserver(std::vector<RelayObserver*> observers)
      : observers_(std::move(observers)) {}

  void on_turn(const TurnReport& turn) override {
    for (auto* observer : observers_) observer->on_turn(turn);
  }
  void on_delivery(const Delivery& delivery) override {
    for (auto* observer : observers_) observer->on_delivery(delivery);
  }
  void on_short_circuit(const ShortCircuit& short_circuit) override {
    for (auto* observer : observers_) observer->on_short_circuit(short_circuit);
  }
  void on_burial(const Burial& burial) override {
    for (auto* observer : observers_) observer->on_burial(burial);
  }
  void on_circuit(const CircuitChange& change) override {
    for (auto* observer : observers_) observer->on_circuit(change);
  }
  void on_probe() override {
    for (auto* observer : observers_) observer->on_probe();
  }
  void on_probe_postponed(Duration wait) override {
    for (auto* observer : observers_) observer->on_probe_postponed(wait);
  }
  void on_destination(const DestinationChange& change) override {
    for (auto* observer : observers_) observer->on_destination(change);
  }
  void on_in_flight_limit(std::size_t limit) override {
    for (auto* observer : observers_) observer->on_in_flight_limit(limit);
  }

 private:
  const std::vector<RelayObserver*> observers_;
};

}  // namespace outbox
