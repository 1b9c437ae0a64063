//! Which system calls a container may make, as `linux.seccomp` of the OCI runtime specification
//! (<https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config-linux.md#seccomp>).
//!
//! The rules are data, in `seccomp.toml`, which names its sources; here they are evaluated for the capabilities that the
//! container has. A call that is let through only with a capability which it has not gets EPERM, a call that no rule names
//! ENOSYS.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

/// The rules.
const RULES: &str = include_str!("seccomp.toml");
/// "No such system call": what a call gets that nobody knows.
const ENOSYS: u32 = 38;
/// "Not permitted": what a call gets that is known and refused.
const EPERM: u32 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Calls, separated by blanks and line breaks.
    names: String,
    /// Only for who has this capability.
    with: Option<String>,
    /// Only for who has not.
    without: Option<String>,
    /// Only on these; unset means all.
    architectures: Option<Vec<String>>,
    /// Only with an argument like this.
    argument: Option<Argument>,
    /// Refused with this error; unset means let through.
    errno: Option<u32>,
}

/// What an argument must be; one of the three tests is set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    index: u32,
    below: Option<u64>,
    one_of: Option<Vec<u64>>,
    none_of_bits: Option<u64>,
}

impl Rule {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.split_whitespace()
    }

    fn is_for(&self, architecture: &str) -> bool {
        self.architectures.as_ref().is_none_or(|all| all.iter().any(|one| one == architecture))
    }

    fn is_met_by(&self, capabilities: &[String]) -> bool {
        let has = |name: &String| capabilities.contains(name);
        self.with.as_ref().is_none_or(has) && !self.without.as_ref().is_some_and(has)
    }

    /// The rule in the specification's words; one for each value, because those of one rule must all be met at once.
    fn spoken(&self) -> Vec<Value> {
        let names: Vec<&str> = self.names().collect();
        let action = match self.errno {
            Some(errno) => json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno }),
            None => json!({ "names": names, "action": "SCMP_ACT_ALLOW" }),
        };
        let Some(argument) = &self.argument else { return vec![action] };
        argument
            .tests()
            .into_iter()
            .map(|test| {
                let mut rule = action.clone();
                if let Some(fields) = rule.as_object_mut() {
                    fields.insert("args".to_owned(), json!([test]));
                }
                rule
            })
            .collect()
    }
}

impl Argument {
    fn tests(&self) -> Vec<Value> {
        let index = self.index;
        let test = |op: &str, value: u64| json!({ "index": index, "value": value, "op": op });
        let below = self.below.map(|value| test("SCMP_CMP_LT", value));
        let bits = self
            .none_of_bits
            .map(|mask| json!({ "index": index, "value": mask, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }));
        let one_of = self.one_of.iter().flatten().map(|value| test("SCMP_CMP_EQ", *value));
        below.into_iter().chain(bits).chain(one_of).collect()
    }
}

/// The filter for a process with these capabilities. None where nothing is known of the architecture: a filter for
/// another one would stop everything.
///
/// # Errors
/// The data file does not hold what it should.
pub fn filter(architecture: &str, capabilities: &[String]) -> Result<Option<Value>, toml::de::Error> {
    let architectures = match architecture {
        "x86_64" => ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"].as_slice(),
        "aarch64" => &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
        _ => return Ok(None),
    };
    let rules: Rules = toml::from_str(RULES)?;
    let here = || rules.rule.iter().filter(|rule| rule.is_for(architecture));
    let met = || here().filter(|rule| rule.is_met_by(capabilities));
    let named: BTreeSet<&str> = met().flat_map(Rule::names).collect();
    let refused: BTreeSet<&str> = here().flat_map(Rule::names).filter(|name| !named.contains(name)).collect();
    let mut spoken: Vec<Value> = met().flat_map(Rule::spoken).collect();
    spoken.push(json!({ "names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM }));
    Ok(Some(json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "architectures": architectures,
        "syscalls": spoken,
    })))
}

/// Whether this kernel filters system calls.
pub fn kernel_filters() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nSeccomp:"))
}

#[cfg(test)]
mod tests {
    use super::super::walls::DEFAULT_CAPABILITIES;
    use super::*;

    fn rules_for(capabilities: &[&str], name: &str) -> Vec<Value> {
        let capabilities: Vec<String> = capabilities.iter().map(|name| (*name).to_owned()).collect();
        let filter = filter("x86_64", &capabilities).unwrap().unwrap();
        assert_eq!(
            (&filter["defaultAction"], &filter["defaultErrnoRet"]),
            (&json!("SCMP_ACT_ERRNO"), &json!(38))
        );
        let all = filter["syscalls"].as_array().unwrap().clone();
        all.into_iter().filter(|rule| rule["names"].as_array().unwrap().contains(&json!(name))).collect()
    }

    fn is_refused_with(rules: &[Value], errno: u32) -> bool {
        matches!(rules, [rule] if rule["action"] == "SCMP_ACT_ERRNO" && rule["errnoRet"] == errno)
    }

    #[test]
    fn what_docker_lets_through_is_let_through_and_what_it_refuses_is_refused() {
        let docker = |name| rules_for(&DEFAULT_CAPABILITIES, name);
        for allowed in
            ["getppid", "execve", "sched_setscheduler", "mlockall", "chroot", "arch_prctl", "adjtimex"]
        {
            let rules = docker(allowed);
            assert!(
                matches!(&rules[..], [rule] if rule["action"] == "SCMP_ACT_ALLOW"),
                "{allowed}: {rules:?}"
            );
        }
        for refused in [
            "mount",
            "unshare",
            "setns",
            "bpf",
            "perf_event_open",
            "io_uring_setup",
            "move_pages",
            "keyctl",
            "reboot",
        ] {
            assert!(is_refused_with(&docker(refused), 1), "{refused}: {:?}", docker(refused));
        }
        assert!(is_refused_with(&docker("clone3"), 38), "libraries fall back to clone");
        assert_eq!(docker("a_call_of_next_year"), Vec::<Value>::new(), "gets the default, ENOSYS");
        let clone = docker("clone");
        assert!(
            matches!(&clone[..], [rule] if rule["args"][0]["op"] == "SCMP_CMP_MASKED_EQ"
                && rule["args"][0]["value"] == 0x7e02_0000),
            "{clone:?}"
        );
        let families: Vec<u64> =
            docker("socket").iter().filter_map(|rule| rule["args"][0]["value"].as_u64()).collect();
        assert!(!families.contains(&40), "AF_VSOCK leads out of the container: {families:?}");
    }

    #[test]
    fn a_capability_opens_its_calls() {
        let mut more = DEFAULT_CAPABILITIES.to_vec();
        more.extend(["CAP_SYS_ADMIN", "CAP_SYS_NICE"]);
        for name in ["mount", "clone3", "mbind"] {
            let rules = rules_for(&more, name);
            assert!(matches!(&rules[..], [rule] if rule["action"] == "SCMP_ACT_ALLOW"), "{name}: {rules:?}");
        }
        let clone = rules_for(&more, "clone");
        assert!(matches!(&clone[..], [rule] if rule.get("args").is_none()), "{clone:?}");
    }

    #[test]
    fn another_architecture_has_no_filter_rather_than_a_wrong_one() {
        assert_eq!(filter("sparc64", &[]).unwrap(), None);
        assert!(filter("aarch64", &[]).unwrap().is_some());
    }
}
