package modaltest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// ImageListTags lists the names of images, sorted. A page's token is its last name.
func (s *Server) ImageListTags(_ context.Context, r *pb.ImageListTagsRequest) (*pb.ImageListTagsResponse, error) {
	most := cmp.Or(int(r.GetMaxObjects()), listPage)
	if most > listPage {
		return nil, status.Errorf(codes.InvalidArgument, "max_objects must be at most %d", listPage)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	environment := environmentName(r.GetEnvironmentName())
	var items []*pb.ImageListTagsItem
	for name, tag := range s.tags {
		if name.environment != environment || !strings.HasPrefix(name.name, r.GetTagPrefix()) || r.GetImageId() != "" &&
			r.GetImageId() != tag.image || name.name <= r.GetPageToken() {
			continue
		}
		items = append(items, pb.ImageListTagsItem_builder{
			Tag: name.name, ImageId: tag.image, CreatedAt: unix(tag.created), UpdatedAt: unix(tag.updated),
		}.Build())
	}
	slices.SortFunc(items, func(a, b *pb.ImageListTagsItem) int { return cmp.Compare(a.GetTag(), b.GetTag()) })
	next := ""
	if len(items) > most {
		items = items[:most]
		next = items[most-1].GetTag()
	}
	return pb.ImageListTagsResponse_builder{Items: items, NextPageToken: next, EnvironmentName: environment}.Build(), nil
}

// ImageNameDelete removes a name of an image and keeps the image.
func (s *Server) ImageNameDelete(_ context.Context, r *pb.ImageNameDeleteRequest) (*emptypb.Empty, error) {
	environment, name := "", r.GetTag()
	if at := strings.LastIndex(name, "/"); at >= 0 {
		environment, name = name[:at], name[at+1:]
	}
	key := objectName{environmentName(environment), imageTag(name)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.tags[key]; !known {
		return nil, status.Errorf(codes.NotFound, "Image '%s' not found", r.GetTag())
	}
	delete(s.tags, key)
	return &emptypb.Empty{}, nil
}
