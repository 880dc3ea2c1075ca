//! Callbacks of observable instruments, read when metrics are collected: memory, connections, budgets, build information.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use accelerd_collections::Totals;
use accelerd_engine::CpuFallback;
use accelerd_kernels::{
    DeviceId, FallbackStats,
    ledger::{Kind, KindMemory, Ledger, Place},
};
use accelerd_sandbox::Stats;
use opentelemetry::{KeyValue, metrics::AsyncInstrument};
use rustix::fs::{StatVfs, statvfs};

use crate::{
    app::App,
    devices::{
        self,
        stats::{self, KernelTotals},
    },
    listen::Reactor,
    sandbox::Sandboxes,
    tls::TlsConfig,
    transport::{memory::MemoryKind, registry::Connections},
};

/// Registers the callbacks on the daemon's meter. They hold all that is given weakly.
pub(crate) fn register(
    app: &Arc<App>,
    connections: &Arc<Connections>,
    reactors: &Arc<[Reactor]>,
    tls: Option<&Arc<TlsConfig>>,
) {
    self::reactors(app, reactors);
    devices(app);
    kernels(app);
    left(app);
    transport_memory(app);
    memory(app);
    collections(app);
    models(app);
    sandbox(app);
    file_systems(app);
    if let Some(tls) = tls {
        certificates(app, tls);
    }
    info(app);
    let meter = app.metrics.meter();
    let open = Arc::downgrade(connections);
    meter
        .u64_observable_gauge("accelerd_connections")
        .with_description("Open connections.")
        .with_callback(move |gauge| with(&open, |connections| gauge.observe(connections.count() as u64, &[])))
        .build();
    let refused = Arc::downgrade(connections);
    meter
        .u64_observable_counter("accelerd_connections_refused")
        .with_description("Connections refused because the limit on connections or memory was reached.")
        .with_callback(move |counter| with(&refused, |connections| counter.observe(connections.refused(), &[])))
        .build();
    let evicted = Arc::downgrade(connections);
    meter
        .u64_observable_counter("accelerd_connections_evicted")
        .with_description("Idle connections closed to admit new ones.")
        .with_callback(move |counter| with(&evicted, |connections| counter.observe(connections.evicted(), &[])))
        .build();
    let stalled = Arc::downgrade(connections);
    meter
        .u64_observable_counter("accelerd_calls_stalled")
        .with_description("Calls aborted because the client stopped sending the request or receiving the response.")
        .with_callback(move |counter| with(&stalled, |connections| counter.observe(connections.stalled_calls(), &[])))
        .build();
}

fn reactors(app: &Arc<App>, reactors: &Arc<[Reactor]>) {
    let meter = app.metrics.meter();
    let label = |at: usize| [KeyValue::new("reactor", at.to_string())];
    let all = Arc::downgrade(reactors);
    meter
        .u64_observable_gauge("accelerd_reactor_connections")
        .with_description("Open connections of a reactor thread.")
        .with_callback(move |gauge| {
            let each = |(at, one): (usize, &Reactor)| gauge.observe(one.connections() as u64, &label(at));
            with(&all, |all| all.iter().enumerate().for_each(each));
        })
        .build();
    let all = Arc::downgrade(reactors);
    meter
        .f64_observable_counter("accelerd_reactor_busy_seconds")
        .with_description("Time that a reactor thread spent running tasks, in seconds.")
        .with_callback(move |counter| {
            let each = |(at, one): (usize, &Reactor)| counter.observe(one.busy_duration().as_secs_f64(), &label(at));
            with(&all, |all| all.iter().enumerate().for_each(each));
        })
        .build();
}

fn with<T: ?Sized>(weak: &Weak<T>, read: impl FnOnce(&T)) {
    if let Some(value) = weak.upgrade() {
        read(&value);
    }
}

fn devices(app: &Arc<App>) {
    let weak = Arc::downgrade(app);
    app.metrics
        .meter()
        .u64_observable_gauge("accelerd_device_memory_bytes")
        .with_description(
            "Memory of a device in bytes, by state: total; used and reserved by the pool; the pool's peak use.",
        )
        .with_callback(move |gauge| with(&weak, |app| device_memory(app, gauge)))
        .build();
    let weak = Arc::downgrade(app);
    app.metrics
        .meter()
        .u64_observable_gauge("accelerd_device_lost")
        .with_description("1 if the device is out of service after an unrecoverable error, else 0.")
        .with_callback(move |gauge| {
            with(&weak, |app| {
                for (device, lost) in app.engine.devices() {
                    gauge.observe(lost.is_some().into(), &[KeyValue::new("device", device.id().to_string())]);
                }
            });
        })
        .build();
}

fn device_memory(app: &App, gauge: &dyn AsyncInstrument<u64>) {
    for (device, _) in app.engine.devices() {
        let name = device.id().to_string();
        let observe = |state: &'static str, bytes| {
            gauge.observe(bytes, &[KeyValue::new("device", name.clone()), KeyValue::new("state", state)]);
        };
        observe("total", device.info().memory_bytes);
        if let Some(pool) = device.pool_stats() {
            observe("used", pool.used_bytes);
            observe("reserved", pool.reserved_bytes);
            observe("peak", pool.peak_bytes);
        }
    }
}

fn kernels(app: &Arc<App>) {
    let labels = |kernel: &KernelTotals| {
        [KeyValue::new("kernel", kernel.name), KeyValue::new("device", kernel.device.to_string())]
    };
    let weak = Arc::downgrade(app);
    let meter = app.metrics.meter();
    meter
        .u64_observable_counter("accelerd_kernel_launches")
        .with_description("Launches of a kernel.")
        .with_callback(move |counter| {
            for_each_kernel(&weak, |kernel| counter.observe(kernel.calls, &labels(kernel)));
        })
        .build();
    let weak = Arc::downgrade(app);
    meter
        .f64_observable_counter("accelerd_kernel_seconds")
        .with_description("Device time of a kernel in seconds.")
        .with_callback(move |counter| {
            for_each_kernel(&weak, |kernel| counter.observe(kernel.total.as_secs_f64(), &labels(kernel)));
        })
        .build();
    let weak = Arc::downgrade(app);
    meter
        .u64_observable_counter("accelerd_kernel_moved_bytes")
        .with_description("Bytes that the launches of a kernel read and wrote at least, of kernels that count them.")
        .with_callback(move |counter| {
            for_each_kernel(&weak, |kernel| counter.observe(kernel.moved_bytes, &labels(kernel)));
        })
        .build();
}

fn for_each_kernel(app: &Weak<App>, observe: impl Fn(&KernelTotals)) {
    with(app, |app| stats::kernels(app).iter().for_each(observe));
}

fn left(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let counter = |name, description, measure: fn(&FallbackStats) -> u64| {
        let weak = Arc::downgrade(app);
        meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |counter| with(&weak, |app| device_fallbacks(app, measure, counter)))
            .build();
    };
    counter(
        "accelerd_cpu_fallback_items",
        "Items that the CPU computed because a GPU could not, by reason.",
        |fallback| fallback.items,
    );
    counter(
        "accelerd_cpu_fallback_bytes",
        "Bytes of the items that the CPU computed because a GPU could not, by reason.",
        |fallback| fallback.bytes,
    );
    let weak = Arc::downgrade(app);
    meter
        .u64_observable_counter("accelerd_cpu_fallback_requests")
        .with_description("Requests that the CPU computed because a GPU had no memory for them.")
        .with_callback(move |counter| {
            with(&weak, |app| {
                for fallback in app.engine.cpu_fallbacks() {
                    counter.observe(fallback.requests, &fallback_labels(&whole(&fallback), fallback.device));
                }
            });
        })
        .build();
}

fn device_fallbacks(app: &App, measure: fn(&FallbackStats) -> u64, counter: &dyn AsyncInstrument<u64>) {
    for (device, _) in app.engine.devices() {
        for fallback in device.fallback_stats() {
            counter.observe(measure(&fallback), &fallback_labels(&fallback, device.id()));
        }
    }
    for fallback in app.engine.cpu_fallbacks() {
        let items = whole(&fallback);
        counter.observe(measure(&items), &fallback_labels(&items, fallback.device));
    }
}

/// The items of whole requests that fell back.
fn whole(&CpuFallback { lane, items, bytes, .. }: &CpuFallback) -> FallbackStats {
    FallbackStats { op: lane, reason: CpuFallback::REASON, items, bytes }
}

fn fallback_labels(fallback: &FallbackStats, device: DeviceId) -> [KeyValue; 3] {
    let lane = KeyValue::new("lane", fallback.op);
    let reason = KeyValue::new("reason", fallback.reason);
    [lane, reason, KeyValue::new("device", device.to_string())]
}

fn transport_memory(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let memory = Arc::downgrade(&app.transport_memory);
    meter
        .u64_observable_gauge("accelerd_transport_memory_bytes")
        .with_description("Transport memory in use in bytes, by kind: connections, requests or responses.")
        .with_callback(move |gauge| {
            with(&memory, |memory| {
                for kind in MemoryKind::ALL {
                    gauge.observe(memory.used_by(kind), &[KeyValue::new("kind", kind.name())]);
                }
            });
        })
        .build();
    let refused = Arc::downgrade(&app.transport_memory);
    meter
        .u64_observable_counter("accelerd_transport_memory_refused")
        .with_description("Charges refused because transport memory was exhausted.")
        .with_callback(move |counter| with(&refused, |memory| counter.observe(memory.refused(), &[])))
        .build();
}

/// The ledger. Its labels are places and kinds, of which there are few.
fn memory(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let labels =
        |place: Place, kind: Kind| [KeyValue::new("place", place.to_string()), KeyValue::new("kind", kind.name())];
    let ledger = Arc::downgrade(&app.ledger);
    meter
        .u64_observable_gauge("accelerd_memory_bytes")
        .with_description("Memory held in bytes, by place (host, cuda:0, ...) and kind of use, including what is reserved in advance for calls.")
        .with_callback(move |gauge| {
            for_each_kind(&ledger, |place, kind| gauge.observe(kind.held, &labels(place, kind.kind)));
        })
        .build();
    let weak = Arc::downgrade(app);
    meter
        .u64_observable_gauge("accelerd_memory_used_bytes")
        .with_description("The part of accelerd_memory_bytes in use: without what is reserved in advance for calls, and free blocks of pools.")
        .with_callback(move |gauge| {
            with(&weak, |app| {
                for place in devices::memory::memory(app) {
                    let observe = |kind: &KindMemory| {
                        gauge.observe(place.used_of(kind), &labels(place.reserved.place, kind.kind));
                    };
                    place.reserved.kinds.iter().for_each(observe);
                }
            });
        })
        .build();
    let ledger = Arc::downgrade(&app.ledger);
    meter
        .u64_observable_gauge("accelerd_memory_limit_bytes")
        .with_description("Limit of accelerd_memory_bytes over all kinds in bytes, by place.")
        .with_callback(move |gauge| {
            with(&ledger, |ledger| {
                for memory in ledger.snapshot() {
                    gauge.observe(memory.limit, &[KeyValue::new("place", memory.place.to_string())]);
                }
            });
        })
        .build();
    let ledger = Arc::downgrade(&app.ledger);
    meter
        .u64_observable_counter("accelerd_memory_refused")
        .with_description("Reservations of memory refused by a limit, by place and kind of use.")
        .with_callback(move |counter| {
            for_each_kind(&ledger, |place, kind| counter.observe(kind.refused, &labels(place, kind.kind)));
        })
        .build();
    let ledger = Arc::downgrade(&app.ledger);
    meter
        .u64_observable_counter("accelerd_memory_evicted_bytes")
        .with_description("Bytes of caches evicted to make room for others, by place and kind of use.")
        .with_callback(move |counter| {
            for_each_kind(&ledger, |place, kind| counter.observe(kind.evicted, &labels(place, kind.kind)));
        })
        .build();
}

fn for_each_kind(ledger: &Weak<Ledger>, observe: impl Fn(Place, &KindMemory)) {
    with(ledger, |ledger| {
        for memory in ledger.snapshot() {
            memory.kinds.iter().for_each(|kind| observe(memory.place, kind));
        }
    });
}

fn collections(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let gauge = |name, description, measure: fn(&Totals) -> u64| {
        let weak = Arc::downgrade(app);
        meter
            .u64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |gauge| {
                with(&weak, |app| gauge.observe(measure(&app.collections.totals()), &[]));
            })
            .build();
    };
    gauge("accelerd_collections", "Open collections.", |totals| totals.collections);
    gauge("accelerd_collection_points", "Points in all collections.", |totals| totals.points);
    gauge(
        "accelerd_collections_read_only",
        "Collections that take no changes, because their files are damaged.",
        |totals| totals.read_only,
    );
    gauge(
        "accelerd_collections_text_index_postponed",
        "Collections with rows that their text index could not commit yet, for lack of memory or by an error; searches find them.",
        |totals| totals.text_postponed,
    );
    gauge(
        "accelerd_collection_set_aside_points",
        "Points that are not served, because their stored vectors have NaN or infinity.",
        |totals| totals.set_aside,
    );
    gauge("accelerd_collection_memory_bytes", "Host memory of all collections in bytes.", |totals| totals.host_bytes);
    gauge("accelerd_collection_device_memory_bytes", "Device memory of all collections in bytes.", |totals| {
        totals.device_bytes
    });
    gauge(
        "accelerd_collection_budget_bytes",
        "Bytes of rows reserved in the ledger, including writes in progress.",
        |totals| totals.held_bytes,
    );
    gauge(
        "accelerd_collection_budget_limit_bytes",
        "The setting store.memory_limit in bytes; 0 means no limit.",
        |totals| totals.limit_bytes,
    );
}

fn models(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let count = Arc::downgrade(app);
    meter
        .u64_observable_gauge("accelerd_models")
        .with_description("Loaded models, including the built-in one.")
        .with_callback(move |gauge| with(&count, |app| gauge.observe(app.embedder.models().len() as u64, &[])))
        .build();
    let bytes = Arc::downgrade(app);
    meter
        .u64_observable_gauge("accelerd_model_memory_bytes")
        .with_description("Size of the weights of all loaded models in their files, in bytes.")
        .with_callback(move |gauge| {
            with(&bytes, |app| gauge.observe(app.embedder.models().iter().map(|model| model.bytes()).sum(), &[]));
        })
        .build();
}

fn sandbox(app: &Arc<App>) {
    let meter = app.metrics.meter();
    let counter = |name, description, measure: fn(&Stats) -> u64| {
        let weak = Arc::downgrade(app);
        meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |counter| {
                with(&weak, |app| counter.observe(measure(&app.sandboxes.stats()), &[]));
            })
            .build();
    };
    counter("accelerd_sandbox_calls", "Calls of functions of WebAssembly modules.", |stats| stats.calls);
    counter("accelerd_sandbox_cases", "Cases of these calls that ended.", |stats| stats.cases);
    counter("accelerd_sandbox_launches", "Launches of kernels.", |stats| stats.launches);
    counter("accelerd_sandbox_threads", "Threads of these launches that ended.", |stats| stats.threads);
    counter("accelerd_sandbox_compilations", "Programs in CUDA C++ that were compiled.", |stats| stats.compilations);
    counter("accelerd_sandbox_starts", "Processes for code of clients that were started.", |stats| stats.starts);
    counter("accelerd_sandbox_restarts", "Those of them that replaced one that had ended.", |stats| stats.restarts);
    counter("accelerd_sandbox_crashes", "Processes for code of clients that ended unexpectedly.", |stats| {
        stats.crashes + stats.protocol_errors
    });
    counter("accelerd_sandbox_timeouts", "Processes that were killed because they did not answer in time.", |stats| {
        stats.timeouts
    });
    counter("accelerd_sandbox_out_of_memory", "Processes for code of clients that ran out of memory.", |stats| {
        stats.out_of_memory
    });
    let weak = Arc::downgrade(app);
    meter
        .u64_observable_gauge("accelerd_sandbox_queued_calls")
        .with_description("Calls that wait for a process.")
        .with_callback(move |gauge| {
            with(&weak, |app| gauge.observe(app.all_sandboxes().map(Sandboxes::queued).sum(), &[]));
        })
        .build();
}

/// The file systems of the folders that the daemon writes to, by the setting of the folder.
fn file_systems(app: &Arc<App>) {
    let config = &app.config;
    let kernel_cache = Some(&config.cuda.kernel_cache).filter(|folder| !folder.as_os_str().is_empty());
    let folders: Arc<[(&str, PathBuf)]> = [
        config.store.folder().map(|folder| ("store.data_dir", folder.to_owned())),
        // The kernels of run time may have a file system of their own.
        kernel_cache.map(|folder| ("cuda.kernel_cache", folder.join("jit"))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let gauge = |name, description, measure: fn(&StatVfs) -> u64| {
        let folders = Arc::clone(&folders);
        let builder = app.metrics.meter().u64_observable_gauge(name).with_description(description);
        builder
            .with_callback(move |gauge| {
                for (setting, folder) in &*folders {
                    if let Ok(file_system) = statvfs(folder) {
                        gauge.observe(
                            file_system.f_frsize * measure(&file_system),
                            &[KeyValue::new("setting", *setting)],
                        );
                    }
                }
            })
            .build();
    };
    gauge(
        "accelerd_filesystem_free_bytes",
        "Bytes that the daemon may still write to the file system of a folder, by the setting of the folder.",
        |file_system| file_system.f_bavail,
    );
    gauge(
        "accelerd_filesystem_size_bytes",
        "Size of the file system of a folder in bytes, by the setting of the folder.",
        |file_system| file_system.f_blocks,
    );
}

fn certificates(app: &Arc<App>, tls: &Arc<TlsConfig>) {
    let tls = Arc::downgrade(tls);
    app.metrics
        .meter()
        .u64_observable_gauge("accelerd_tls_certificate_expiry_timestamp_seconds")
        .with_description(
            "When the first certificate of the server's chain, or of client_ca, expires, in seconds since 1970.",
        )
        .with_callback(move |gauge| {
            with(&tls, |tls| {
                for (certificate, expiry) in &tls.get().expiries {
                    gauge.observe(*expiry, &[KeyValue::new("certificate", *certificate)]);
                }
            });
        })
        .build();
}

fn info(app: &Arc<App>) {
    let meter = app.metrics.meter();
    meter
        .u64_observable_gauge("accelerd_build_info")
        .with_description("1, labelled with the version.")
        .with_callback(|gauge| gauge.observe(1, &[KeyValue::new("version", env!("CARGO_PKG_VERSION"))]))
        .build();
    if let Some(reason) = app.fallback.clone() {
        meter
            .u64_observable_gauge("accelerd_fallback_info")
            .with_description("1 if no GPU is used, labelled with the reason.")
            .with_callback(move |gauge| gauge.observe(1, &[KeyValue::new("reason", reason.clone())]))
            .build();
    }
}
