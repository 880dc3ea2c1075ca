//! Plans of the graphs that were executed lately.

use std::{fmt, sync::Arc};

use accelerd_tensor::{Graph, GraphError, GraphKey, GraphSpec, Plan};

use crate::single_flight::SingleFlightCache;

/// Bounds of the plans that no request uses: their number, and an estimate of their bytes.
const MAX_PLANS: usize = 1024;
const MAX_BYTES: u64 = 16 << 20;
/// Estimated bytes of a plan and its key for each byte of the key.
const BYTES_PER_KEY_BYTE: u64 = 16;

/// An LRU cache of plans. Equal graphs have the same plan, which is the key of the launches that workers have prepared and captured.
pub struct PlanCache(SingleFlightCache<GraphKey, Plan, ()>);

impl Default for PlanCache {
    fn default() -> Self {
        Self(SingleFlightCache::new(MAX_PLANS, MAX_BYTES))
    }
}

impl fmt::Debug for PlanCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plans, bytes) = self.0.usage();
        f.debug_struct("PlanCache").field("plans", &plans).field("bytes", &bytes).finish()
    }
}

impl PlanCache {
    /// The plan of a graph: one made before for an equal graph, whatever its nodes are named, or a new one.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn plan(&self, spec: &GraphSpec) -> Result<Arc<Plan>, GraphError> {
        let plan = || Graph::new(spec).map(|graph| Plan::new(&graph));
        // A graph without a key is malformed: the error says how.
        let Some(key) = spec.key() else { return plan().map(Arc::new) };
        let bytes = key.bytes() as u64 * BYTES_PER_KEY_BYTE;
        let cached = self.0.get_or_create(&key, || plan().map(|plan| (plan, bytes)).map_err(drop));
        // Errors name nodes, which those of an equal graph do not.
        cached.or_else(|()| plan().map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Attribute, Dtype, NodeSpec, TensorType};

    use super::*;

    /// `y = x * factor`.
    fn scaled(name: &str, factor: f64) -> GraphSpec {
        let ty = TensorType { dtype: Dtype::F32, shape: vec![8] };
        let node = NodeSpec {
            name: name.to_owned(),
            op: "mul".to_owned(),
            inputs: vec!["x".to_owned()],
            attributes: [("other".to_owned(), Attribute::Float(factor))].into(),
        };
        GraphSpec { inputs: vec![("x".to_owned(), ty)], nodes: vec![node], outputs: vec![name.to_owned()] }
    }

    fn plan(cache: &PlanCache, spec: &GraphSpec) -> Arc<Plan> {
        cache.plan(spec).expect("a valid graph")
    }

    #[test]
    fn equal_graphs_have_the_same_plan_and_others_have_others() {
        let cache = PlanCache::default();
        let first = plan(&cache, &scaled("y", 0.0));
        assert!(Arc::ptr_eq(&first, &plan(&cache, &scaled("z", 0.0))));
        assert_ne!(first, plan(&cache, &scaled("y", -0.0)), "-0 is another factor");
        assert!(Arc::ptr_eq(&plan(&cache, &scaled("y", f64::NAN)), &plan(&cache, &scaled("y", f64::NAN))));
    }

    #[test]
    fn plans_are_bounded_by_number() {
        let cache = PlanCache::default();
        for nth in 0..MAX_PLANS + 10 {
            plan(&cache, &scaled("y", nth as f64));
        }
        assert_eq!(cache.0.usage().0, MAX_PLANS);
    }

    #[test]
    fn the_error_of_a_malformed_graph_is_its_own_and_not_kept() {
        let cache = PlanCache::default();
        let wrongs = ["y", "z"].map(|name| {
            let mut wrong = scaled(name, 1.0);
            wrong.nodes[0].op = "scale".to_owned();
            wrong
        });
        for wrong in [&wrongs[0], &wrongs[1], &scaled("x", 1.0)] {
            let error = cache.plan(wrong).expect_err("malformed");
            assert_eq!(Some(error), Graph::new(wrong).err());
        }
        assert_eq!(cache.0.usage().0, 0);
    }
}
