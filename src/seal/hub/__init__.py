"""A finished run on the Hugging Face hub: what its card says (`card`), and the upload (`upload`)."""
