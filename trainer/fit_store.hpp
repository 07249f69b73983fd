#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "schemas/results/trained.hpp"

namespace dgap::trainer {

/// Keeps the finished trainings of one network in a folder, so that a search that was stopped goes
/// on at the next one. Without a folder it keeps nothing.
class FitStore {
 public:
  FitStore() = default;
  FitStore(std::filesystem::path folder, std::string key)
      : folder_(std::move(folder)), key_(std::move(key)) {}

  /// What `fit` gave, now or when it was called for `name` under the same key.
  schemas::TrainedNetwork get(const std::string& name,
                              const std::function<schemas::TrainedNetwork()>& fit) const;
  /// Removes the folder.
  void clear() const;

 private:
  std::filesystem::path folder_;
  std::string key_;
};

}  // namespace dgap::trainer
