# syntax=docker/dockerfile:1.9
# Two images from one binary:
#   docker build --target cpu  -t accelerd:0.1.0-cpu .
#   docker build --target cuda -t accelerd:0.1.0 .
# The container runtime injects the driver libraries; the build needs neither a GPU nor the CUDA toolkit.
#
# The images listen on all addresses, where the daemon refuses to start unprotected. Either mount a folder with certificates,
# principals and a config.toml that names them (SECURITY.md):
#   docker run -v "$PWD/accelerd:/etc/accelerd:ro" -p 7433:7433 accelerd:0.1.0-cpu
# or say that only trusted callers reach the port; everyone who does may do everything:
#   docker run -e ACCELERD__AUTH__INSECURE=true -p 127.0.0.1:7433:7433 accelerd:0.1.0-cpu
# The images set nothing by ENV, because the environment overrides configuration files: deploy/image.toml has their settings, and a
# mounted config.toml replaces it.

ARG RUST_IMAGE=rust:1.95-bookworm
ARG CPU_IMAGE=debian:bookworm-slim
ARG CUDA_IMAGE=nvidia/cuda:13.0.2-base-ubuntu24.04

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package accelerd --package accelctl \
    && install -D target/release/accelerd target/release/accelctl --target-directory /out

FROM ${CPU_IMAGE} AS cpu
LABEL org.opencontainers.image.title="accelerd" \
      org.opencontainers.image.description="GPU acceleration for code over gRPC" \
      org.opencontainers.image.licenses="MIT"
# CA certificates for object stores and the model hub.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /usr/local/bin/
COPY deploy/image.toml /etc/accelerd/config.toml
RUN install --directory --owner=65532 --group=65532 /var/lib/accelerd
USER 65532:65532
VOLUME /var/lib/accelerd
EXPOSE 7433 7434 7435 7436
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["accelerd", "health"]
ENTRYPOINT ["accelerd"]
CMD ["serve"]

FROM ${CUDA_IMAGE} AS cuda
LABEL org.opencontainers.image.title="accelerd" \
      org.opencontainers.image.description="GPU acceleration for code over gRPC" \
      org.opencontainers.image.licenses="MIT"
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates cuda-nvrtc-13-0 libcublas-13-0 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /usr/local/bin/
COPY deploy/image.toml /etc/accelerd/config.toml
# Compile the kernels at build time: NVRTC needs no GPU. Where the root is read-only, a volume is mounted at the folder jit only.
RUN install --directory --owner=65532 --group=65532 /var/lib/accelerd /var/cache/accelerd/kernels/jit \
    && accelerd kernels build --arch sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120 --cache /var/cache/accelerd/kernels
USER 65532:65532
VOLUME /var/lib/accelerd
EXPOSE 7433 7434 7435 7436
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["accelerd", "health"]
ENTRYPOINT ["accelerd"]
CMD ["serve"]
