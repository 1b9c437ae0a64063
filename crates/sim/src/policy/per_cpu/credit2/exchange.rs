//! Which two of two queues to exchange, or which one to move, so that their loads differ least: what Xen's credit2 finds by trying
//! all pairs, found here by going through both sides in order of load.

use crate::host::VcpuId;

/// Somebody who may move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    /// How much he weighs on his queue.
    pub load: f64,
    /// Who it is.
    pub vcpu: VcpuId,
}

/// Of those who may be pushed to the other queue and those who may be pulled from it, whom to push and whom to pull; nobody where
/// nothing makes `difference`, what this queue is loaded more, less.
pub fn exchange(
    difference: f64,
    mut push: Vec<Member>,
    mut pull: Vec<Member>,
) -> (Option<VcpuId>, Option<VcpuId>) {
    let order = |one: &Member, two: &Member| one.load.total_cmp(&two.load).then(one.vcpu.cmp(&two.vcpu));
    push.sort_by(order);
    pull.sort_by(order);
    // Nobody is somebody without load.
    let side = |members: Vec<Member>| {
        let all = members.into_iter().map(|member| (member.load, Some(member.vcpu)));
        [(0.0, None)].into_iter().chain(all).collect::<Vec<_>>()
    };
    let (push, pull) = (side(push), side(pull));
    // A rest this small is the same difference.
    let mut best = (difference.abs() - 1e-9, None, None);
    let mut at = 0;
    for (out, pushed) in &push {
        // What is pushed and pulled changes the difference twice: wanted is out - back = difference / 2.
        while at + 1 < pull.len() && pull[at + 1].0 <= out - difference / 2.0 {
            at += 1;
        }
        for (back, pulled) in pull.iter().skip(at).take(2) {
            let rest = (difference - 2.0 * (out - back)).abs();
            if rest < best.0 {
                best = (rest, *pushed, *pulled);
            }
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_pair_makes_the_difference_less(
            push in proptest::collection::vec(0.0..1.0, 0..8),
            pull in proptest::collection::vec(0.0..1.0, 0..8),
            difference in -3.0..3.0,
        ) {
            let members = |loads: &[f64], first: u32| -> Vec<Member> {
                loads.iter().zip(first..).map(|(load, vcpu)| Member { load: *load, vcpu: VcpuId(vcpu) }).collect()
            };
            let (out, back) = exchange(difference, members(&push, 0), members(&pull, 100));
            let load = |vcpu: Option<VcpuId>, loads: &[f64], first: u32| {
                vcpu.map_or(0.0, |vcpu| loads[(vcpu.0 - first) as usize])
            };
            let rest = |out: f64, back: f64| (difference - 2.0 * (out - back)).abs();
            let got = rest(load(out, &push, 0), load(back, &pull, 100));
            for one in push.iter().chain(&[0.0]) {
                for two in pull.iter().chain(&[0.0]) {
                    prop_assert!(got <= rest(*one, *two) + 1e-6);
                }
            }
        }
    }
}
