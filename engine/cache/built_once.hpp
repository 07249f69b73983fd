#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace dgap::engine {

/// Immutable objects that are costly to make and the same for equal keys: made once and kept for
/// the life of the process. Thread-safe.
template <class Key, class Value>
class BuiltOnce {
 public:
  /// make() gives a shared_ptr; called under the lock.
  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Value>& entry = made_[key];
    if (entry == nullptr) entry = make();
    return entry;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Value>> made_;
};

}  // namespace dgap::engine
