# syntax=docker/dockerfile:1
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
ENV GOCACHE=/cache/build GOMODCACHE=/cache/mod
RUN --mount=type=cache,target=/cache go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=devel
RUN --mount=type=cache,target=/cache \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.release=$VERSION" -o /out/forewarm ./cmd/forewarm \
    && mkdir -p /out/data

# No shell, no package manager; CA certificates are all the binary takes from it.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/forewarm /usr/local/bin/forewarm
COPY --from=build --chown=65532:65532 /out/data /data
# In a container the network is the container's own; the defaults would listen on its loopback and write to /. So producers
# reach the embedded NATS server where port 4222 is published: docker run -p 4222:4222 -v $PWD/forewarm.yaml:/etc/forewarm/forewarm.yaml.
ENV FOREWARM_SERVER_LISTEN=0.0.0.0:9464 \
    FOREWARM_NATS_EMBEDDED_LISTEN=0.0.0.0:4222 \
    FOREWARM_STORAGE_DIR=/data
USER 65532:65532
VOLUME /data
# NATS; the page and metrics; KEDA and Dynamo, and OTLP and HTTP telemetry, where the configuration has them listen.
EXPOSE 4222 9464 9465 9466 4318
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["/usr/local/bin/forewarm", "check", "-health", "http://127.0.0.1:9464/healthz"]
ENTRYPOINT ["/usr/local/bin/forewarm"]
CMD ["serve", "-config", "/etc/forewarm/forewarm.yaml"]
