"""Values for each option of the chart, as a platform team sets them."""

PARENTS = [{"name": "public", "namespace": "gateways", "sectionName": "https"}]
SCALE_DOWN = {"scaleDown": {"stabilizationWindowSeconds": 600, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
MONITOR = {
    "enabled": True,
    "namespace": "monitoring",
    "labels": {"release": "kube-prometheus-stack"},
    "interval": "15s",
    "scrapeTimeout": "10s",
    "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}],
    "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "accelerd_batch_.*"}],
}
TLS = {"tls": {"secretName": "accelerd-tls"}, "auth": {"principalsSecretName": "principals", "insecure": False}}

OPTIONS = {
    "three pods with a claim each": {
        "replicaCount": 3,
        "persistence": {
            "enabled": True,
            "size": "5Gi",
            "storageClassName": "fast",
            "annotations": {"example.com/backup": "daily"},
            "retentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
        },
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
    },
    "image by digest": {"image": {"repository": "registry.example.com/accelerd", "digest": f"sha256:{'0' * 64}"}},
    "names and labels": {"nameOverride": "engine", "commonLabels": {"team": "search"}, "podLabels": {"tier": "gpu"}},
    "load balancer": {
        "service": {
            "type": "LoadBalancer",
            "port": 443,
            "httpPort": 8443,
            "annotations": {"example.com/internal": "true"},
            "loadBalancerClass": "example.com/internal",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "externalTrafficPolicy": "Local",
        }
    },
    "disruption budget by percentage": {"podDisruptionBudget": {"maxUnavailable": "25%"}},
    "disruption budget by minimum": {"podDisruptionBudget": {"minAvailable": 2}},
    "autoscaling by CPU": {"autoscaling": {"enabled": True, "maxReplicas": 8, "behavior": SCALE_DOWN}},
    "autoscaling by a metric": {
        "autoscaling": {
            "enabled": True,
            "targetCPUUtilizationPercentage": 0,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": "accelerd_queue_wait_seconds_p95"},
                        "target": {"type": "AverageValue", "averageValue": "100m"},
                    },
                }
            ],
        }
    },
    "KEDA": {
        "keda": {
            "enabled": True,
            "behavior": SCALE_DOWN,
            "prometheus": {"threshold": 0.25, "authenticationRef": {"name": "prometheus", "kind": "ClusterTriggerAuthentication"}},
            "triggers": [
                {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 8 * * *", "end": "0 18 * * *", "desiredReplicas": "2"}}
            ],
        }
    },
    "network policy": {
        "networkPolicy": {
            "enabled": True,
            "callers": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateways"}}}, {"podSelector": {}}],
            "restrictEgress": True,
            "egressRules": [
                {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}], "ports": [{"protocol": "TCP", "port": 443}]}
            ],
        }
    },
    "service monitor": {"metrics": {"serviceMonitor": MONITOR}},
    "pod monitor": {"metrics": {"podMonitor": MONITOR}},
    "alerts": {"metrics": {"prometheusRule": {"enabled": True, "labels": {"release": "stack"}, "alertLabels": {"team": "search"}}}},
    "dashboards": {"metrics": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "Search"}}}},
    "routes of a gateway": {
        "grpcRoute": {
            "enabled": True,
            "parentRefs": PARENTS,
            "hostnames": ["grpc.example.com"],
            "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-debug"]}}],
        },
        "httpRoute": {
            "enabled": True,
            "parentRefs": PARENTS,
            "hostnames": ["http.example.com"],
            "timeouts": {"request": "120s"},
            "annotations": {"example.com/owner": "search"},
        },
    },
    "TLS behind a gateway": {
        **TLS,
        "grpcRoute": {"enabled": True, "parentRefs": PARENTS},
        "backendTLS": {"enabled": True, "caConfigMapName": "authorities", "hostname": "accelerd.example.com"},
    },
    "TLS behind a gateway by public authorities": {**TLS, "backendTLS": {"enabled": True, "hostname": "accelerd.example.com"}},
    "ingresses": {
        "ingress": {
            "http": {"enabled": True, "className": "nginx", "hosts": ["http.example.com"], "tlsSecretName": "http-tls"},
            "grpc": {
                "enabled": True,
                "className": "nginx",
                "hosts": ["grpc.example.com", "*.grpc.example.com"],
                "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "GRPC"},
            },
        }
    },
    "models on a claim": {"models": {"volume": {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}}},
    "models on the node": {"models": {"volume": {"hostPath": {"path": "/srv/models", "type": "Directory"}}}},
    "models that are downloaded": {
        "hub": {"tokenSecretName": "hub"},
        "models": {
            "volume": {"emptyDir": {"sizeLimit": "10Gi"}},
            "download": {"files": [{"url": "https://huggingface.co/a/b/resolve/main/c.bin", "path": "b/c.bin", "sha256": "0" * 64}]},
        },
    },
    "cache of the hub": {
        "hub": {"tokenSecretName": "hub", "tokenSecretKey": "HF_TOKEN"},
        "models": {"volume": {"persistentVolumeClaim": {"claimName": "models"}}, "readOnly": False},
        "config": {"models": {"hub": {"cache": "/models/hub"}}},
    },
    "kernels on a claim": {"kernelCache": {"volume": {"persistentVolumeClaim": {"claimName": "kernels"}}}},
    "variables": {
        "extraEnv": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "envFrom": [{"secretRef": {"name": "object-store"}}, {"configMapRef": {"name": "regions", "optional": True}, "prefix": "AWS_"}],
    },
    "volumes and containers": {
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "extraInitContainers": [{"name": "wait", "image": "busybox", "command": ["true"]}],
        "extraContainers": [{"name": "sidecar", "image": "busybox", "command": ["sleep", "1d"]}],
    },
    "scheduling": {
        "priorityClassName": "serving",
        "gpu": {"runtimeClassName": "nvidia"},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR}}
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
            },
        ],
    },
    "end of a pod": {"preStopSeconds": 15, "terminationGracePeriodSeconds": 120},
    "replacement of all pods at once": {"strategy": {"type": "Recreate"}},
    "service account of another release": {"serviceAccount": {"create": False, "name": "shared", "annotations": {}}},
    "calls of the test with TLS": {
        **TLS,
        "tests": {"caSecretName": "accelerd-tls", "serverName": "accelerd", "clientSecretName": "client", "tokenSecretName": "token"},
    },
    "no HTTP": {"config": {"http": {"listen": ""}}, "networkPolicy": {"enabled": True}},
}
