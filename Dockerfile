# syntax=docker/dockerfile:1.9
# Two images from one binary:
#   docker build --target cpu  -t accelerd:0.1.0-cpu .
#   docker build --target cuda -t accelerd:0.1.0 .
# The container runtime injects the driver libraries; the build needs neither a GPU nor the CUDA toolkit. `deploy/packages/image` builds
# both from the programs of a release, without a Docker engine.
#
# The images listen on all addresses, where the daemon refuses to start unprotected. Either mount a folder with certificates,
# principals and a config.toml that names them (SECURITY.md):
#   docker run -v "$PWD/accelerd:/etc/accelerd:ro" -p 7433:7433 accelerd:0.1.0-cpu
# or say that only trusted callers reach the port; everyone who does may do everything:
#   docker run -e ACCELERD__AUTH__INSECURE=true -p 127.0.0.1:7433:7433 accelerd:0.1.0-cpu
# The images set nothing by ENV, because the environment overrides configuration files: deploy/image.toml has their settings, and a
# mounted config.toml replaces it.

ARG RUST_IMAGE=rust:1.95-bookworm
ARG RUNTIME_IMAGE=debian:bookworm-slim
# Stage with the programs: `build` compiles them, `packaged` takes those in the folder packaged of the context.
ARG PROGRAMS=build

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package accelerd --package accelctl \
    && install -D target/release/accelerd target/release/accelctl --target-directory /out/bin

FROM scratch AS packaged
COPY packaged/ /out/

# hadolint ignore=DL3006
FROM ${PROGRAMS} AS programs

FROM ${RUNTIME_IMAGE} AS cpu
LABEL org.opencontainers.image.title="accelerd" \
      org.opencontainers.image.description="GPU acceleration for code over gRPC" \
      org.opencontainers.image.licenses="MIT"
# CA certificates for object stores and the model hub.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=programs /out/bin/ /usr/local/bin/
COPY deploy/image.toml /etc/accelerd/config.toml
RUN install --directory --owner=65532 --group=65532 /var/lib/accelerd
USER 65532:65532
VOLUME /var/lib/accelerd
EXPOSE 7433 7434 7435 7436
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["accelerd", "health"]
ENTRYPOINT ["accelerd"]
CMD ["serve"]

# NVIDIA's libraries, from its packages for Python, with their licences. The daemon finds them there.
FROM ${RUNTIME_IMAGE} AS libraries
# hadolint ignore=DL3008,DL3013,DL3042
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-pip \
    && pip install --target /nvidia 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cublas==13.0.*' \
    && find /nvidia \( -name 'libcublas.so*' -o -name 'libnvblas.so*' -o -name '*.alt.so*' -o -name include \) -exec rm -r {} +

FROM ${RUNTIME_IMAGE} AS cuda
LABEL org.opencontainers.image.title="accelerd" \
      org.opencontainers.image.description="GPU acceleration for code over gRPC" \
      org.opencontainers.image.licenses="MIT"
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=libraries /nvidia/ /usr/local/lib/python3/site-packages/
COPY --from=programs /out/ /usr/local/
COPY deploy/image.toml /etc/accelerd/config.toml
# Programs of a release have compiled kernels beside them; others are compiled here, where NVRTC needs no GPU. Kernels generated at run
# time are written to the folder jit of the cache, for which a volume is mounted where the root is read-only.
RUN install --directory --owner=65532 --group=65532 /var/lib/accelerd /var/cache/accelerd/kernels/jit \
    && { test -d /usr/local/share/accelerd/kernels \
        || accelerd kernels build --installation --cache /usr/local/share/accelerd/kernels; }
USER 65532:65532
VOLUME /var/lib/accelerd
EXPOSE 7433 7434 7435 7436
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["accelerd", "health"]
ENTRYPOINT ["accelerd"]
CMD ["serve"]
