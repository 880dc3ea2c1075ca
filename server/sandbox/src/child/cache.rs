//! Compiled modules, the most recently used ones.

use std::collections::HashMap;

use wasmtime::{InstancePre, Module};

use super::data::StoreData;
use crate::protocol::{ModuleCode, ModuleHash, ModuleInfo};

/// Key of a compiled module: its binary, and the kind of its compiled code.
pub(super) type ModuleKey = (ModuleHash, ModuleCode);

/// A compiled module with its imports.
#[derive(Clone)]
pub(super) struct LoadedModule {
    pub(super) instance_pre: InstancePre<StoreData>,
    pub(super) info: std::sync::Arc<ModuleInfo>,
    /// Kind of its compiled code: `Undo` only if a log was added.
    pub(super) code: ModuleCode,
    /// About the memory that it holds.
    pub(super) bytes: u64,
}

impl LoadedModule {
    pub(super) fn module(&self) -> &Module {
        self.instance_pre.module()
    }
}

/// An LRU cache with bounds on the number of modules and on their memory.
pub(super) struct ModuleCache {
    modules: HashMap<ModuleKey, (u64, LoadedModule)>,
    max_modules: usize,
    max_bytes: u64,
    uses: u64,
}

impl ModuleCache {
    pub(super) fn new(max_modules: u32, max_bytes: u64) -> Self {
        Self { modules: HashMap::new(), max_modules: max_modules.max(1) as usize, max_bytes, uses: 0 }
    }

    pub(super) fn get(&mut self, key: &ModuleKey) -> Option<LoadedModule> {
        self.uses += 1;
        let (last_use, module) = self.modules.get_mut(key)?;
        *last_use = self.uses;
        Some(module.clone())
    }

    /// Adds a module, and drops the least recently used ones that no longer fit. The added one stays, whatever its size.
    pub(super) fn insert(&mut self, key: ModuleKey, module: LoadedModule) {
        self.uses += 1;
        self.modules.insert(key, (self.uses, module));
        while self.modules.len() > 1 && (self.modules.len() > self.max_modules || self.bytes() > self.max_bytes) {
            let Some(oldest) = self.modules.iter().min_by_key(|(_, (last_use, _))| *last_use).map(|(key, _)| *key)
            else {
                break;
            };
            self.modules.remove(&oldest);
        }
    }

    fn bytes(&self) -> u64 {
        self.modules.values().map(|(_, module)| module.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wasmtime::{Engine, Linker};

    use super::*;

    fn module(bytes: u64) -> LoadedModule {
        let engine = Engine::default();
        let module = Module::new(&engine, wat::parse_str("(module)").expect("a module")).expect("a module");
        let instance_pre = Linker::new(&engine).instantiate_pre(&module).expect("no imports");
        let info = ModuleInfo {
            functions: vec![],
            exports_memory: false,
            memory_bytes: 0,
            math_imports: vec![],
            code_bytes: 0,
        };
        LoadedModule { instance_pre, info: Arc::new(info), code: ModuleCode::Plain, bytes }
    }

    fn key(number: u8) -> ModuleKey {
        (ModuleHash([number; 32]), ModuleCode::Plain)
    }

    #[test]
    fn the_least_recently_used_module_is_dropped() {
        let mut cache = ModuleCache::new(2, 100);
        cache.insert(key(1), module(1));
        cache.insert(key(2), module(1));
        assert!(cache.get(&key(1)).is_some());
        cache.insert(key(3), module(1));
        assert!(cache.get(&key(2)).is_none());
        assert!(cache.get(&key(1)).is_some() && cache.get(&key(3)).is_some());
    }

    #[test]
    fn modules_are_dropped_by_size_but_for_the_last() {
        let mut cache = ModuleCache::new(9, 100);
        cache.insert(key(1), module(60));
        cache.insert(key(2), module(60));
        assert!(cache.get(&key(1)).is_none());
        cache.insert(key(3), module(1000));
        assert!(cache.get(&key(2)).is_none());
        assert!(cache.get(&key(3)).is_some());
    }

    #[test]
    fn modules_of_other_code_are_other_modules() {
        let mut cache = ModuleCache::new(2, 100);
        cache.insert(key(1), module(1));
        assert!(cache.get(&(ModuleHash([1; 32]), ModuleCode::Fuel)).is_none());
    }
}
