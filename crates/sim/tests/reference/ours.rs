//! The program under test, asked through its public interface only.

use super::host::Host;

/// CPUs that each VM has by `bulkhead simulate`, over so many seconds from its start.
pub fn cpus(host: &Host, policy: &str, seconds: i64, seed: u64) -> Vec<f64> {
    let text = host.scenario(policy, seconds, seed);
    let cases = model::scenario::cases(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let done = sim::scenario::run_host(&cases[0].scenario, seed, 0);
    let figure = |number: usize| {
        let id = format!("vm.v{number}.cpus");
        let figure = done.figures.iter().find(|figure| figure.id == id);
        figure.unwrap_or_else(|| panic!("no {id}: {:?}", done.trouble)).value
    };
    (0..host.vms.len()).map(figure).collect()
}
