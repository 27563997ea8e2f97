// Puts together what the lanes of a warp do, of which one runs until it waits: see ptx_counting.py. Visits are kept until
// all lanes are at the same place, or the block has ended.
#include "counters.h"

#include <algorithm>
#include <unordered_map>

namespace simt {
namespace {

constexpr int kWarp = 32;
constexpr uint64_t kSectorBytes = 32, kWordBytes = 4, kBanks = 32;
constexpr uint32_t kNone = ~0u;

struct Visit {
  uint64_t key;
  int block, site, sites;
  uint32_t lanes, taken;
  uint32_t next;  // where the lane that was here last went
  size_t first;   // of its accesses
};

// One instruction of a visit.
struct Accesses {
  uint64_t addresses[kWarp];
  uint32_t lanes;
  int bytes;
  Space space;
  bool write;
};

struct Warp {
  int lanes;
  std::vector<Visit> visits;
  std::vector<Accesses> accesses;
  size_t used = 0;  // of accesses
  std::unordered_map<uint64_t, uint32_t> places;
};

// Which sectors were touched, a bit for each.
class Sectors {
 public:
  void add(uint64_t sector) {
    const uint64_t page = sector / kPage;
    if (page != last_ || bits_ == nullptr) {
      std::vector<uint64_t>& bits = pages_[page];
      bits.resize(kPage / 64);
      last_ = page;
      bits_ = bits.data();
    }
    uint64_t& word = bits_[sector % kPage / 64];
    const uint64_t bit = uint64_t(1) << sector % 64;
    count_ += (word & bit) == 0;
    word |= bit;
  }
  int64_t count() const { return count_; }

 private:
  static constexpr uint64_t kPage = 4096;
  std::unordered_map<uint64_t, std::vector<uint64_t>> pages_;
  uint64_t last_ = 0;
  uint64_t* bits_ = nullptr;
  int64_t count_ = 0;
};

std::map<std::string, KernelCount> counts;
KernelCount* kernel = nullptr;
Sectors read_sectors, written_sectors;
std::vector<Warp> warps;
std::vector<uint32_t> places;  // of each thread, its visit
int block_threads = 0, thread = 0;

template <class T>
T& grown(std::vector<T>& all, size_t index) {
  if (all.size() <= index) all.resize(index + 1);
  return all[index];
}

int64_t sectors_of(const Accesses& all) {
  uint64_t found[2 * kWarp];
  size_t count = 0;
  Sectors& touched = all.write ? written_sectors : read_sectors;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((all.lanes >> lane & 1) == 0) continue;
    const uint64_t last = (all.addresses[lane] + static_cast<uint64_t>(all.bytes) - 1) / kSectorBytes;
    for (uint64_t sector = all.addresses[lane] / kSectorBytes; sector <= last; ++sector) {
      if (std::find(found, found + count, sector) != found + count) continue;
      found[count++] = sector;
      touched.add(sector);
    }
  }
  return static_cast<int64_t>(count);
}

// A wavefront takes one word from each bank, which any number of lanes may share. Of words of 8 and 16 bytes a lane, half
// and a quarter of the warp are served at a time; what an earlier part has fetched is not fetched again.
int64_t wavefronts_of(const Accesses& all) {
  const int parts = std::max(1, all.bytes / static_cast<int>(kWordBytes)), part_lanes = kWarp / parts;
  uint64_t found[kWarp * 4];
  size_t count = 0;
  int64_t wavefronts = 0;
  for (int part = 0; part < parts; ++part) {
    int of_bank[kBanks] = {}, most = 0;
    for (int lane = part * part_lanes; lane < (part + 1) * part_lanes; ++lane) {
      if ((all.lanes >> lane & 1) == 0) continue;
      for (int i = 0; i < parts; ++i) {
        const uint64_t word = all.addresses[lane] / kWordBytes + static_cast<uint64_t>(i);
        if (std::find(found, found + count, word) != found + count) continue;
        found[count++] = word;
        most = std::max(most, ++of_bank[word % kBanks]);
      }
    }
    wavefronts += most;
  }
  return wavefronts;
}

void add(Warp& warp, const Visit& visit) {
  BlockCount& block = grown(kernel->blocks, static_cast<size_t>(visit.block));
  ++block.visits;
  block.lanes += __builtin_popcount(visit.lanes);
  block.divergent += visit.taken != 0 && visit.taken != visit.lanes;
  for (int i = 0; i < visit.sites; ++i) {
    const Accesses& all = warp.accesses[visit.first + static_cast<size_t>(i)];
    if (all.lanes == 0) continue;
    SiteCount& site = grown(kernel->sites, static_cast<size_t>(visit.site + i));
    ++site.requests;
    site.lanes += __builtin_popcount(all.lanes);
    site.parts += all.space == Space::kShared ? wavefronts_of(all) : sectors_of(all);
  }
}

}  // namespace

const std::map<std::string, KernelCount>& counted() { return counts; }

void clear_counts() { counts.clear(); }

uint64_t count_entry() { return 1 << 12; }

void count_visit(uint64_t key, int block, int site, int sites) {
  Warp& warp = warps[static_cast<size_t>(thread / kWarp)];
  uint32_t& place = places[static_cast<size_t>(thread)];
  uint32_t found = place == kNone ? 0 : warp.visits[place].next;
  if (found >= warp.visits.size() || warp.visits[found].key != key) {
    const auto [known, is_new] = warp.places.try_emplace(key, static_cast<uint32_t>(warp.visits.size()));
    found = known->second;
    if (is_new) {
      warp.visits.push_back({key, block, site, sites, 0, 0, kNone, warp.used});
      for (int i = 0; i < sites; ++i) grown(warp.accesses, warp.used++).lanes = 0;
    }
    if (place != kNone) warp.visits[place].next = found;
  }
  place = found;
  warp.visits[found].lanes |= 1u << thread % kWarp;
}

void count_taken() {
  warps[static_cast<size_t>(thread / kWarp)].visits[places[static_cast<size_t>(thread)]].taken |= 1u << thread % kWarp;
}

void count_access(int index, const void* address, int bytes, Space space, bool write) {
  Warp& warp = warps[static_cast<size_t>(thread / kWarp)];
  Accesses& all = warp.accesses[warp.visits[places[static_cast<size_t>(thread)]].first + static_cast<size_t>(index)];
  const int lane = thread % kWarp;
  all.addresses[lane] = reinterpret_cast<uint64_t>(address);
  all.lanes |= 1u << lane;
  all.bytes = bytes;
  all.space = space;
  all.write = write;
}

void begin_counting(const char* name) {
  kernel = &counts[name];
  ++kernel->launches;
  read_sectors = written_sectors = {};
}

void begin_counting_block(int threads) {
  block_threads = threads;
  const int count = (threads + kWarp - 1) / kWarp;
  grown(warps, static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) warps[static_cast<size_t>(i)].lanes = std::min(kWarp, threads - i * kWarp);
  places.assign(static_cast<size_t>(threads), kNone);
  kernel->warps += count;
}

void count_thread(int number) { thread = number; }

void end_visits(int number) {
  Warp& warp = warps[static_cast<size_t>(number)];
  for (const Visit& visit : warp.visits) {
    add(warp, visit);
    warp.places.erase(visit.key);
  }
  warp.visits.clear();
  warp.used = 0;
  const auto first = places.begin() + number * kWarp;
  std::fill(first, first + warp.lanes, kNone);
}

void end_visits() {
  for (int i = 0; i * kWarp < block_threads; ++i) end_visits(i);
}

void end_counting() {
  kernel->read += read_sectors.count();
  kernel->written += written_sectors.count();
}

}  // namespace simt
