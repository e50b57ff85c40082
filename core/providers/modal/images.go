package modal

import (
	"context"
	"slices"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// publishedPrefix is the prefix in Spec.Image of an image that was published at Modal.
const publishedPrefix = "modal:"

// tagPage is the most image names that Modal lists in one reply.
const tagPage = 100

// imageTags lists the names of all images.
func (p *Provider) imageTags(ctx context.Context, op string) ([]*pb.ImageListTagsItem, error) {
	c, raw, err := p.control(ctx, op)
	if client.NoAccount(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*pb.ImageListTagsItem
	for page := ""; ; {
		reply, err := raw.ImageListTags(ctx, pb.ImageListTagsRequest_builder{
			EnvironmentName: c.Account.Environment, MaxObjects: tagPage, PageToken: page,
		}.Build())
		if err != nil {
			return nil, client.Classify(op, "", err)
		}
		all = append(all, reply.GetItems()...)
		if page = reply.GetNextPageToken(); page == "" {
			return all, nil
		}
	}
}

// imageByName returns the id of a published image.
func (p *Provider) imageByName(ctx context.Context, name string) (string, error) {
	c, err := p.connect()
	if err != nil {
		return "", err
	}
	found, err := c.SDK.Images.FromName(ctx, name, nil)
	if err != nil {
		return "", client.Classify("image", name, err)
	}
	return found.ImageID, nil
}

// Images implements core.ImageStore. It returns published images without snapshots, because Modal lists only published
// images.
func (p *Provider) Images(ctx context.Context) ([]core.ImageInfo, error) {
	tags, err := p.imageTags(ctx, "image")
	if err != nil {
		return nil, err
	}
	var images []core.ImageInfo
	for _, item := range tags {
		if strings.HasSuffix(item.GetTag(), ":"+snapshotTag) {
			continue
		}
		at := slices.IndexFunc(images, func(known core.ImageInfo) bool { return known.ID == item.GetImageId() })
		if at < 0 {
			at = len(images)
			images = append(
				images, core.ImageInfo{ID: item.GetImageId(), Provider: Name, Created: fromUnix(item.GetCreatedAt())},
			)
		}
		images[at].Names = append(images[at].Names, publishedPrefix+item.GetTag())
	}
	return images, nil
}

// PullImage implements core.ImageStore: Modal fetches an image of a registry, once for all sandboxes.
func (p *Provider) PullImage(ctx context.Context, name string, progress core.ProgressFunc) (core.ImageInfo, error) {
	c, err := p.connect()
	if err != nil {
		return core.ImageInfo{}, err
	}
	made, err := recipeOf(core.Spec{Image: name})
	if err != nil {
		return core.ImageInfo{}, err
	}
	l := &launching{
		provider: p, client: c, spec: core.Spec{App: defaultApp}, lookups: &client.Lookups{Client: c, Fresh: true},
	}
	app, err := l.app(ctx)
	if err != nil {
		return core.ImageInfo{}, client.Classify("image", name, err)
	}
	image, err := made.image(ctx, c, app, l.lookups, progress)
	if err != nil {
		return core.ImageInfo{}, client.Classify("image", name, err)
	}
	return core.ImageInfo{ID: image.ImageID, Names: []string{name}, Provider: Name, Created: time.Now().UTC()}, nil
}

// RemoveImage implements core.ImageStore. Sandboxes that run from the image keep running.
func (p *Provider) RemoveImage(ctx context.Context, ref string) error {
	name := strings.TrimPrefix(ref, publishedPrefix)
	if !strings.HasPrefix(name, imagePrefix) && !strings.Contains(name, ":") {
		name += ":latest"
	}
	return p.removeImage(ctx, "image", name)
}

// removeImage removes an image, by its id or a name, and all its names.
func (p *Provider) removeImage(ctx context.Context, op, ref string) error {
	c, raw, err := p.control(ctx, op)
	if err != nil {
		return err
	}
	id := ref
	if !strings.HasPrefix(ref, imagePrefix) {
		if id, err = p.imageByName(ctx, ref); err != nil {
			return err
		}
	}
	tags, err := raw.ImageListTags(
		ctx, pb.ImageListTagsRequest_builder{EnvironmentName: c.Account.Environment, ImageId: id}.Build(),
	)
	if err != nil {
		return client.Classify(op, ref, err)
	}
	err = client.Each(tags.GetItems(), func(_ int, item *pb.ImageListTagsItem) error {
		name := item.GetTag()
		if c.Account.Environment != "" {
			name = c.Account.Environment + "/" + name
		}
		_, err := raw.ImageNameDelete(ctx, pb.ImageNameDeleteRequest_builder{Tag: name}.Build())
		return err
	})
	if err != nil {
		return client.Classify(op, ref, err)
	}
	_, err = raw.ImageDelete(ctx, pb.ImageDeleteRequest_builder{ImageId: id}.Build())
	return client.Classify(op, ref, err)
}
