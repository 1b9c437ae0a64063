//! From the list of probes to everything that is made of it: names, the tables of an experiment, what is sent and brought home,
//! and who answers for each ([`crate::probe::Probe`]).

macro_rules! probes {
    ($($(#[$meta:meta])* $module:ident: $variant:ident = $name:literal),+ $(,)?) => {
        units::names! {
            /// A measurement kernel.
            ProbeKind, "probe", { $($(#[$meta])* $variant = $name,)+ }
        }

        /// The probes of an experiment: a probe is measured when its table is there, `[probe.gap]` for example.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Probes {
            $($(#[$meta])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $module: Option<<$module::$variant as Probe>::Params>,)+
        }

        /// One probe with its parameters, as it is sent to an agent.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "probe", content = "params", rename_all = "kebab-case")]
        pub enum ProbeSpec {
            $($(#[$meta])* $variant(<$module::$variant as Probe>::Params),)+
        }

        /// Raw outcome of a probe.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "probe", rename_all = "kebab-case")]
        pub enum Detail {
            $($(#[$meta])* $variant(<$module::$variant as Probe>::Detail),)+
        }

        /// Parameters of all probes.
        pub mod params {
            pub use crate::{ProbeKind, ProbeSpec, Probes};
            $(pub use crate::$module::params::*;)+
        }

        /// Outcomes of all probes.
        pub mod detail {
            pub use crate::Detail;
            pub use crate::rate::RatePoint;
            pub use crate::witnessed::{Stretch, WORST_KEPT, Witnessed};
            $(
                #[allow(unused_imports, reason = "two probes have one outcome in common")]
                pub use crate::$module::detail::*;
            )+
        }

        impl ProbeKind {
            /// What is known of it before it is set up.
            pub const fn about(self) -> &'static About {
                match self { $(Self::$variant => &<$module::$variant as Probe>::ABOUT,)+ }
            }

            /// What its figures are; [`crate::probe::Definition::of`] looks one up.
            pub const fn definitions(self) -> &'static [Definition] {
                match self { $(Self::$variant => $module::metrics::DEFINITIONS,)+ }
            }
        }

        impl ProbeSpec {
            /// Which probe this is.
            pub const fn kind(&self) -> ProbeKind {
                match self { $(Self::$variant(_) => ProbeKind::$variant,)+ }
            }

            /// The probe with its default parameters.
            pub fn default_of(kind: ProbeKind) -> Self {
                match kind { $(ProbeKind::$variant => Self::$variant(Default::default()),)+ }
            }

            /// Checks every bound of its parameters.
            ///
            /// # Errors
            /// The first key outside its bounds.
            pub fn check(&self) -> Result<(), OutOfBounds> {
                match self { $(Self::$variant(params) => params.check(),)+ }
            }

            /// How long it takes in a process of the host; [`Probe::cost`].
            pub fn cost(&self, facts: &MachineFacts) -> Cost {
                match self { $(Self::$variant(params) => $module::$variant::cost(params, facts),)+ }
            }

            /// Seconds that moving its data adds; [`Probe::transfer`].
            pub fn transfer(&self, instances: f64, slow: f64) -> f64 {
                match self { $(Self::$variant(params) => $module::$variant::transfer(params, instances, slow),)+ }
            }

            /// What may come on top at worst; [`Probe::at_worst`].
            pub fn at_worst(&self) -> Duration {
                match self { $(Self::$variant(params) => $module::$variant::at_worst(params),)+ }
            }

            /// Memory that it fills.
            pub fn memory(&self, facts: &MachineFacts) -> Bytes {
                match self { $(Self::$variant(params) => $module::$variant::memory(params, facts),)+ }
            }

            /// Room that it takes on the disk.
            pub fn disk(&self) -> Bytes {
                match self { $(Self::$variant(params) => $module::$variant::disk(params),)+ }
            }

            /// The same with so many percent more work; none for a probe without fixed work; [`Probe::with_more_work`].
            pub fn with_more_work(&self, percent: f64) -> Option<Self> {
                match self {
                    $(Self::$variant(params) => $module::$variant::with_more_work(params, percent).map(Self::$variant),)+
                }
            }

            /// Makes an outcome up, for the fake platform.
            fn pretend(&self, maker: &mut pretend::Maker) -> Detail {
                match self { $(Self::$variant(params) => Detail::$variant($module::pretend::pretend(maker, params)),)+ }
            }
        }

        impl Detail {
            /// Which probe this comes from.
            pub const fn kind(&self) -> ProbeKind {
                match self { $(Self::$variant(_) => ProbeKind::$variant,)+ }
            }

            /// Why the measurement saw nothing; none when it saw something.
            pub fn saw_nothing(&self) -> Option<String> {
                match self { $(Self::$variant(detail) => $module::check::saw_nothing(detail),)+ }
            }

            /// How its threads were scheduled; none for probes that ask nothing of the scheduler.
            pub fn scheduling(&self) -> Option<Scheduling> {
                match self { $(Self::$variant(detail) => $module::$variant::scheduling(detail),)+ }
            }

            /// Of a metric that is a quantile of values whose rounds may be taken together: those values, and which quantile.
            pub fn tail(&self, metric: &str) -> Option<(units::histogram::Histogram, f64)> {
                match self { $(Self::$variant(detail) => $module::$variant::tail(detail, metric),)+ }
            }

            /// How long things took; [`Probe::lengths`].
            pub fn lengths(&self) -> Option<probe::Lengths> {
                match self { $(Self::$variant(detail) => $module::$variant::lengths(detail),)+ }
            }

            /// What is believed of it beyond its shape.
            fn check(&self) -> check::Checked {
                match self { $(Self::$variant(detail) => $module::check::check(detail),)+ }
            }
        }

        impl Probes {
            /// The probes that are to be measured, in the order of [`ProbeKind::ALL`].
            pub fn specs(&self) -> Vec<ProbeSpec> {
                [$(self.$module.clone().map(ProbeSpec::$variant),)+].into_iter().flatten().collect()
            }

            /// Drops every probe that is not in `keep`.
            pub fn retain(&mut self, keep: &[ProbeKind]) {
                $(self.$module.take_if(|_| !keep.contains(&ProbeKind::$variant));)+
            }

            /// Adds a probe, or replaces its parameters.
            pub fn set(&mut self, spec: ProbeSpec) {
                match spec { $(ProbeSpec::$variant(params) => self.$module = Some(params),)+ }
            }
        }

        /// Runs one probe.
        ///
        /// # Errors
        /// Why it could not be measured.
        pub fn measure(spec: &ProbeSpec, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
            match spec { $(ProbeSpec::$variant(params) => $module::run::measure(params, context),)+ }
        }

        /// All metrics of one measurement, the main one first: always a headline. Details come from guests that are not trusted:
        /// whatever they hold, nothing panics, and what cannot be computed, or is not a finite number, is a reason instead of a
        /// figure. The clock's own cost is no metric: it is kept beside them.
        pub fn metrics_of(detail: &Detail, _clock: &ClockFacts) -> Vec<Metric> {
            match detail { $(Detail::$variant(detail) => $module::metrics::metrics(detail),)+ }
        }
    };
}

pub(crate) use probes;
