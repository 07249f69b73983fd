#include "trainer/fit_store.hpp"

#include "base/error.hpp"

namespace dgap::trainer {

schemas::TrainedNetwork FitStore::get(const std::string& name,
                                      const std::function<schemas::TrainedNetwork()>& fit) const {
  if (folder_.empty()) return fit();
  try {
    schemas::TrainedNetwork kept = schemas::read_trained(folder_, name);
    if (kept.key == key_) return kept;
  } catch (const base::IoError&) {  // not there, or not whole
  }
  schemas::TrainedNetwork network = fit();
  network.key = key_;
  schemas::write_trained(folder_, name, network);
  return network;
}

void FitStore::clear() const {
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

}  // namespace dgap::trainer
