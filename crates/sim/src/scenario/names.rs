//! Names of a scenario's VMs and virtual CPUs, copies counted out.

use model::scenario::{Scenario, VmSpec};

/// The names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// VM by VM: `A`, or `A-1`, `A-2` for copies.
    pub vms: Vec<String>,
    /// Which entry of the scenario each VM comes from.
    pub spec_of: Vec<usize>,
}

impl Names {
    /// Those of this scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let mut names = Self { vms: Vec::new(), spec_of: Vec::new() };
        for (number, spec) in scenario.vms.iter().enumerate() {
            for copy in 1..=spec.count {
                let name = if spec.count == 1 { spec.name.clone() } else { format!("{}-{copy}", spec.name) };
                names.vms.push(name);
                names.spec_of.push(number);
            }
        }
        names
    }

    /// Virtual CPU by virtual CPU: `A.0`. Made when somebody asks: a big host has many, whose names nobody wants.
    pub fn vcpus(&self, scenario: &Scenario) -> Vec<String> {
        let of_vm = |(vm, name)| {
            let count = self.spec(scenario, vm).map_or(0, |spec| spec.vcpus);
            (0..count).map(move |vcpu| format!("{name}.{vcpu}"))
        };
        self.vms.iter().enumerate().flat_map(of_vm).collect()
    }

    /// What the scenario says of VM number `vm`.
    pub fn spec<'a>(&self, scenario: &'a Scenario, vm: usize) -> Option<&'a VmSpec> {
        self.spec_of.get(vm).and_then(|number| scenario.vms.get(*number))
    }
}
