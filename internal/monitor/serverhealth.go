package monitor

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// watchEvery is how often a Watch looks whether the state has changed.
const watchEvery = time.Second

// grpcHealth answers gRPC health v1 by the report. The empty service and the
// daemon's own stand for the whole.
type grpcHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	report  func() Report
	service string
}

// newHealthServer makes a gRPC server that has health and reflection, and nothing
// else. Messages to it are small.
func newHealthServer(report func() Report, service string) *grpc.Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(4<<10), grpc.MaxConcurrentStreams(8))
	grpc_health_v1.RegisterHealthServer(s, &grpcHealth{report: report, service: service})
	reflection.Register(s)
	return s
}

func (h *grpcHealth) state() *grpc_health_v1.HealthCheckResponse {
	report := h.report()
	if report.Ready() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}
}

func (h *grpcHealth) known(service string) bool { return service == "" || service == h.service }

func (h *grpcHealth) Check(_ context.Context, q *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if !h.known(q.Service) {
		return nil, status.Error(codes.NotFound, "there is no such service here")
	}
	return h.state(), nil
}

func (h *grpcHealth) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	now := h.state()
	return &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{"": now, h.service: now}}, nil
}

// Watch tells each change until the other side has enough, or the listener's time
// for one answer is over.
func (h *grpcHealth) Watch(q *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	told := grpc_health_v1.HealthCheckResponse_UNKNOWN
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		now := &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN}
		if h.known(q.Service) {
			now = h.state()
		}
		if now.Status != told {
			if err := stream.Send(now); err != nil {
				return err
			}
			told = now.Status
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
