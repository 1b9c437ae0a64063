//! What is believed of a message beyond its shape: a guest may send anything. The host refuses what breaks these rules.

use model::wire::ToHost;
use probes::check::{Checked, MOST_CPUS, NAME_CHARS, at_most, check_reply, text};
use units::facts::MachineFacts;

/// Most network cards a machine may claim.
const MOST_NICS: usize = 8;

/// Checks everything in a message that came from an agent. The error says which part breaks which rule.
///
/// # Errors
/// The first broken rule, in words.
pub fn check_message(message: &ToHost) -> Checked {
    match message {
        ToHost::Hello { version, facts, .. } => {
            text("hello.version", version, NAME_CHARS)?;
            check_facts(facts)
        }
        ToHost::Running { .. } | ToHost::Heartbeat { .. } | ToHost::AskClock { .. } => Ok(()),
        ToHost::Done { reply, .. } => check_reply(reply),
    }
}

fn check_facts(facts: &MachineFacts) -> Checked {
    text("facts.architecture", &facts.architecture, NAME_CHARS)?;
    let texts = [
        ("facts.cpu_model", &facts.cpu_model),
        ("facts.system", &facts.system),
        ("facts.kernel", &facts.kernel),
        ("facts.clock_source", &facts.clock_source),
        ("facts.hypervisor", &facts.hypervisor),
    ];
    texts
        .into_iter()
        .try_for_each(|(name, value)| value.iter().try_for_each(|v| text(name, v, NAME_CHARS)))?;
    at_most("facts.nics", facts.nics.len(), MOST_NICS)?;
    facts.nics.iter().try_for_each(|nic| text("facts.nics", nic, NAME_CHARS))?;
    at_most("facts.cpus", facts.cpus as usize, MOST_CPUS as usize)
}
