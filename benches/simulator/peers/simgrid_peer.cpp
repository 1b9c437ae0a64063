// SimGrid: prints events per second after as many as it is told. Fastest documented contexts (raw) and no tracing.
// timers: sleeping actors. sharing: tasks take turns of 1 ms on 16 cores, first come first served, each turn an execution on
// a host of 16 cores; sharing-asleep: the same, but a turn only takes time. Left to share a host by itself it would not
// take turns at all: its model of CPUs is fluid.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;
static long events = 0;
static std::chrono::steady_clock::time_point began;
static bool started = false;
static long wanted = 0;

static double elapsed()
{
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

static void count_event()
{
  if (!started) {
    started = true;
    began   = std::chrono::steady_clock::now();
  }
  events++;
  if (events >= wanted) {
    printf("%f\n", events / elapsed());
    fflush(stdout);
    _Exit(0);
  }
}

int main(int argc, char** argv)
{
  char stack[] = "--cfg=contexts/stack-size:16";
  char guard[] = "--cfg=contexts/guard-size:0";
  char raw[]   = "--cfg=contexts/factory:raw";
  char quiet[] = "--log=root.thres:critical";
  char* words[] = {argv[0], stack, guard, raw, quiet, nullptr};
  int count     = 5;
  sg::Engine engine(&count, words);
  if (argc < 4)
    return 2;
  wanted       = atol(argv[3]);
  int entities = atoi(argv[2]);
  bool timers  = strcmp(argv[1], "timers") == 0;
  bool asleep  = strcmp(argv[1], "sharing-asleep") == 0;
  auto cores   = sg::Semaphore::create(16);
  auto* zone   = sg::create_full_zone("zone");
  auto* host   = zone->create_host("host", 1e9);
  host->set_core_count(16);
  zone->seal();
  for (int i = 0; i < entities; i++) {
    if (timers) {
      sg::Actor::create("timer", host, [i]() {
        std::minstd_rand random(i + 1);
        while (true) {
          sg::this_actor::sleep_for(1e-9 + 1e-3 * random() / 2147483647.0);
          count_event();
        }
      });
    } else {
      sg::Actor::create("sharer", host, [cores, asleep]() {
        while (true) {
          cores->acquire();
          if (asleep)
            sg::this_actor::sleep_for(1e-3);
          else
            sg::this_actor::execute(1e6);
          cores->release();
          count_event();
        }
      });
    }
  }
  engine.run();
}
